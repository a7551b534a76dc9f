// Package web makes HTTP servers that strangers may reach: times, headers and requests at once are bounded, and a panic
// in one page ends that page alone. It imports nothing of ours and knows nothing of what the pages show.
package web
