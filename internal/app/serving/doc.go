// Package serving says how gRPC is served: how long connections stay and how large requests may be, which refused streams are
// logged, what a panic ends, what is counted, and that proxies wait until every source has been read.
//
// The package must not know what is served.
package serving
