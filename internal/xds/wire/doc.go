// Package wire reads discovery requests and writes discovery responses. It decodes by hand what clients send, within bounds, because
// the requests of a reconnecting fleet name everything that it holds; and it hands the bytes of resources to gRPC as they are.
//
// It must not know what a request means, nor who sent it.
package wire
