package authorization

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	networkauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	securityv1beta1 "istio.io/api/security/v1beta1"
)

// An RBAC engine in shadow mode writes to metadata which rule of action CUSTOM a request matches. The filter that asks the authorizer runs
// only for requests that match one.
const (
	askedPrefix  = "istio_ext_authz_"
	askedPolicy  = "istio-ext-authz"
	matchedKey   = askedPrefix + "shadow_effective_policy_id"
	longestAsked = 600 * time.Second // the default timeout of providers
)

// Authorizer is an extension provider that decides about requests and connections that policies of action CUSTOM match. Those that it
// cannot decide about are denied: the zero value denies everything that matches.
type Authorizer struct {
	requests    *httpauthzv3.ExtAuthz
	connections *networkauthzv3.ExtAuthz
}

type (
	httpProvider = meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider
	grpcProvider = meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider
	bodyOptions  = meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody
)

// Service returns the service of a provider, in the form [<namespace>/]<host>, and its port; false: it is not an authorizer.
func Service(p *meshconfig.MeshConfig_ExtensionProvider) (service string, port uint32, ok bool) {
	if h := p.GetEnvoyExtAuthzHttp(); h != nil {
		return h.GetService(), h.GetPort(), true
	}
	if g := p.GetEnvoyExtAuthzGrpc(); g != nil {
		return g.GetService(), g.GetPort(), true
	}
	return "", 0, false
}

// NewAuthorizer builds the authorizer of a provider, which is reached through a cluster; host is the provider's name there.
func NewAuthorizer(p *meshconfig.MeshConfig_ExtensionProvider, cluster, host string) (Authorizer, error) {
	if h := p.GetEnvoyExtAuthzHttp(); h != nil {
		return overHTTP(h, cluster, host)
	}
	if g := p.GetEnvoyExtAuthzGrpc(); g != nil {
		return overGRPC(g, cluster, host)
	}
	return Authorizer{}, fmt.Errorf("extension provider %q is not an authorizer", p.GetName())
}

func overHTTP(p *httpProvider, cluster, host string) (Authorizer, error) {
	status, err := statusOnError(p.GetStatusOnError())
	if err != nil {
		return Authorizer{}, err
	}
	if prefix := p.GetPathPrefix(); prefix != "" && !strings.HasPrefix(prefix, "/") {
		return Authorizer{}, fmt.Errorf("pathPrefix %q does not begin with a slash", prefix)
	}
	in := p.GetIncludeRequestHeadersInCheck()
	if len(in) == 0 {
		in = p.GetIncludeHeadersInCheck() //nolint:staticcheck // deprecated, still taken
	}
	service := &httpauthzv3.HttpService{
		PathPrefix: p.GetPathPrefix(),
		ServerUri: &corev3.HttpUri{
			Uri:              (&url.URL{Scheme: "http", Host: host + ":" + strconv.FormatUint(uint64(p.GetPort()), 10)}).String(),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}, Timeout: timeout(p.GetTimeout()),
		},
		AuthorizationRequest: &httpauthzv3.AuthorizationRequest{HeadersToAdd: fixed(p.GetIncludeAdditionalHeadersInCheck())},
		AuthorizationResponse: &httpauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders:        headers(p.GetHeadersToUpstreamOnAllow()),
			AllowedClientHeaders:          headers(p.GetHeadersToDownstreamOnDeny()),
			AllowedClientHeadersOnSuccess: headers(p.GetHeadersToDownstreamOnAllow()),
		},
	}
	return usable(Authorizer{requests: &httpauthzv3.ExtAuthz{
		Services:         &httpauthzv3.ExtAuthz_HttpService{HttpService: service},
		AllowedHeaders:   headers(in),
		FailureModeAllow: p.GetFailOpen(), ClearRouteCache: p.GetClearRouteCache(), StatusOnError: status,
		WithRequestBody: body(p.GetIncludeRequestBodyInCheck()), TransportApiVersion: corev3.ApiVersion_V3,
		FilterEnabledMetadata: customMatched(requestFilter),
	}})
}

// usable returns an error if Envoy would refuse the authorizer.
func usable(a Authorizer) (Authorizer, error) {
	if err := a.requests.ValidateAll(); err != nil {
		return Authorizer{}, err
	}
	return a, nil
}

func overGRPC(p *grpcProvider, cluster, host string) (Authorizer, error) {
	status, err := statusOnError(p.GetStatusOnError())
	if err != nil {
		return Authorizer{}, err
	}
	service := &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host}},
		Timeout:         timeout(p.GetTimeout()),
	}
	return usable(Authorizer{
		requests: &httpauthzv3.ExtAuthz{
			Services:         &httpauthzv3.ExtAuthz_GrpcService{GrpcService: service},
			FailureModeAllow: p.GetFailOpen(), ClearRouteCache: p.GetClearRouteCache(), StatusOnError: status,
			WithRequestBody: body(p.GetIncludeRequestBodyInCheck()), TransportApiVersion: corev3.ApiVersion_V3,
			IncludePeerCertificate: true, FilterEnabledMetadata: customMatched(requestFilter),
		},
		connections: &networkauthzv3.ExtAuthz{
			StatPrefix: tcpPrefix, GrpcService: service, FailureModeAllow: p.GetFailOpen(), IncludePeerCertificate: true,
			TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: customMatched(connectionFilter),
		},
	})
}

// customMatched matches requests for which the RBAC engine before a filter found a matching rule.
func customMatched(filter string) *matcherv3.MetadataMatcher {
	return metadata(filter, []string{matchedKey}, textValue(pattern{prefix, askedPolicy}))
}

func statusOnError(text string) (*typev3.HttpStatus, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if _, known := typev3.StatusCode_name[int32(n)]; err != nil || !known || n == 0 {
		return nil, fmt.Errorf("statusOnError %q is not an HTTP status", text)
	}
	return &typev3.HttpStatus{Code: typev3.StatusCode(n)}, nil
}

func timeout(d *durationpb.Duration) *durationpb.Duration {
	if d == nil {
		return durationpb.New(longestAsked)
	}
	return d
}

func body(o *bodyOptions) *httpauthzv3.BufferSettings {
	if o == nil {
		return nil
	}
	return &httpauthzv3.BufferSettings{
		MaxRequestBytes: o.GetMaxRequestBytes(), AllowPartialMessage: o.GetAllowPartialMessage(), PackAsBytes: o.GetPackAsBytes(),
	}
}

// headers matches header names, ignoring case. "*" matches every header.
func headers(names []string) *matcherv3.ListStringMatcher {
	if len(names) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, n := range names {
		p := parsePattern(n)
		m := p.matcher()
		m.IgnoreCase = true
		if p.form == presence {
			m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".*"}}}
		}
		out.Patterns = append(out.Patterns, m)
	}
	return out
}

func fixed(of map[string]string) (out []*corev3.HeaderValue) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, &corev3.HeaderValue{Key: k, Value: of[k]})
	}
	return out
}

// customRules returns the rules of action CUSTOM. Their names have the prefix that the asking filter matches.
func customRules(policies []*Compiled, of func(*Compiled) []Rule) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{}}
	for _, p := range policies {
		if p.Action != securityv1beta1.AuthorizationPolicy_CUSTOM {
			continue
		}
		for _, r := range of(p) {
			out.Policies[askedPolicy+"-"+r.Name] = r.RBAC
		}
	}
	if len(out.Policies) == 0 {
		return nil
	}
	return out
}
