// Package lease ends a stream with its credentials: when a certificate or token expires, and when it is no longer trusted. It has
// gRPC's interceptor and credentials for the secure address.
//
// It must not know proxies, nor what a stream is for.
package lease
