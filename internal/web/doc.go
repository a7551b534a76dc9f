// Package web makes HTTP servers that strangers may reach: times, headers and requests at once are bounded, and a panic
// in one page ends that page alone. It makes HTTP clients too that go where strangers say, and not to barred networks. It knows
// nothing of what the pages show, nor of what is fetched.
package web
