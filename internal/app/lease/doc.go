// Package lease ends streams with what they were opened with: when a certificate or token ends, and when it is no longer believed.
// It is gRPC's interceptor and credentials on the secure address.
//
// It must not know proxies, nor what a stream is for.
package lease
