package listener

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// Methods that may be repeated without the client's consent (RFC 9110, section 9.2.2).
const idempotent = "GET|HEAD|OPTIONS|TRACE|PUT|DELETE"

// unreached marks responses to requests that callers' proxies may safely send to another endpoint. The callers' proxies do so because of
// the condition "unavailable" in the default retry policy, which only looks at the header. Responses to gRPC calls have the same header
// from Envoy.
//
// A request of any method is marked if it never reached the workload, because no connection could be made: the workload is starting, or
// closed its port before its clients learned that it ends. If the workload closed the connection instead of answering, it may have read
// the request, so only idempotent requests are marked.
func unreached() *hcmv3.LocalReplyConfig {
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		unavailable(flagged("UF")), // upstream connection failure
		unavailable(&accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{
				flagged("UC"), // upstream connection termination
				{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{HeaderFilter: &accesslogv3.HeaderFilter{
					Header: &routev3.HeaderMatcher{Name: ":method", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
						StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
							SafeRegex: &matcherv3.RegexMatcher{Regex: idempotent},
						}},
					}},
				}}},
			}},
		}}),
	}}
}

// flagged matches responses with one of Envoy's response flags.
func flagged(flag string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{flag}},
	}}
}

func unavailable(which *accesslogv3.AccessLogFilter) *hcmv3.ResponseMapper {
	return &hcmv3.ResponseMapper{Filter: which, HeadersToAdd: []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: "grpc-status", Value: "14"}, // unavailable
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}}
}
