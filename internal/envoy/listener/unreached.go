package listener

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// unreached marks answers to requests that never reached the workload as no connection to it came about: it is starting,
// or has closed its port before its clients heard that it ends. Callers' proxies may safely send such a request to another
// endpoint, whatever its method, and do so by the condition "unavailable" of the default retry policy, which looks at the
// header alone. Calls of gRPC have the same header from Envoy.
func unreached() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{{
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
			ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UF"}}, // upstream connection failure
		}},
		HeadersToAdd: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "grpc-status", Value: "14"}, // unavailable
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}},
	}}}
}
