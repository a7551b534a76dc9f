package authorization

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/config/filters"
)

// Filter is the name of the filter that asks an authorizer.
const Filter = "envoy.filters.http.ext_authz"

// AskedTimeout is the time that an authorizer of a route has for its answer. The Gateway API sets none.
const AskedTimeout = 10 * time.Second

// ofMessage are headers that describe a message itself, or its connection. Those of an authorizer's answer must not take the place of the
// request's: with another content-length, a server would read the request's body wrong.
const ofMessage = "content-length|content-type|content-encoding|transfer-encoding|connection|keep-alive|proxy-connection|te|trailer|" +
	"upgrade|date"

// Ask returns the filter that asks an authorizer of a route, which is reached through a cluster. If the authorizer cannot be asked, or
// fails, requests are answered 403.
func Ask(a filters.Authorizer, cluster string) *httpauthzv3.ExtAuthz {
	out := &httpauthzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3, AllowedHeaders: namesOf(a.Headers), ValidateMutations: true,
	}
	if a.Body > 0 {
		out.WithRequestBody = &httpauthzv3.BufferSettings{MaxRequestBytes: a.Body, PackAsBytes: a.GRPC}
	}
	timeout := durationpb.New(AskedTimeout)
	if a.GRPC {
		out.Services = &httpauthzv3.ExtAuthz_GrpcService{GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: a.Host},
			},
			Timeout: timeout,
		}}
		return out
	}
	copied := namesOf(a.Copied)
	if copied == nil {
		copied = &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{regex(".*")}}
	}
	out.Services = &httpauthzv3.ExtAuthz_HttpService{HttpService: &httpauthzv3.HttpService{
		ServerUri: &corev3.HttpUri{
			Uri:              (&url.URL{Scheme: "http", Host: a.Host + ":" + strconv.FormatUint(uint64(a.Port), 10)}).String(),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}, Timeout: timeout,
		},
		PathPrefix:            a.Path,
		AuthorizationResponse: &httpauthzv3.AuthorizationResponse{AllowedUpstreamHeaders: copied},
	}}
	// By default, the rules let no answer change the host, the path or the method.
	out.DecoderHeaderMutationRules = &mutationv3.HeaderMutationRules{
		DisallowExpression: &matcherv3.RegexMatcher{Regex: "(?i)" + ofMessage},
	}
	return out
}

// namesOf matches these header names, ignoring case; nil: there are none.
func namesOf(names []string) *matcherv3.ListStringMatcher {
	if len(names) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, n := range names {
		out.Patterns = append(out.Patterns, &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: strings.ToLower(n)}, IgnoreCase: true,
		})
	}
	return out
}

func regex(expression string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: expression}},
	}
}
