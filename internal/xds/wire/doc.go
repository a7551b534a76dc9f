// Package wire reads discovery requests and writes discovery responses. It decodes requests by hand, within limits, because the
// requests of a reconnecting fleet name all of its resources. It hands the bytes of resources to gRPC as they are.
//
// It must not know what a request means, nor who sent it.
package wire
