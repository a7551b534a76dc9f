// Package web makes HTTP servers that strangers may reach: times, headers and requests at once are bounded, and a panic in one page ends
// only that page. It also makes HTTP clients for URLs that strangers choose, which do not connect to barred networks. It knows nothing of
// the pages, nor of the fetched content.
package web
