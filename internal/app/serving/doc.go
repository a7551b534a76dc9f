// Package serving configures gRPC servers: how long connections stay and how large requests may be, which refused streams are
// logged, what a panic ends, which metrics count, and that proxies wait until every source has been read.
//
// The package must not know which services are served.
package serving
