// Package drain lets an Envoy's connections end before the Envoy does, so that stopping it loses nothing.
//
// The order is the point: first its health fails and peers have time to notice, while it serves everything; then it
// asks each connection to go, by "connection: close" and GOAWAY; when none is left that has something in hand, or time
// is up, it may be stopped. It must not know who stops it.
package drain
