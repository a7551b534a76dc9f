package authentication

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	securityv1beta1 "istio.io/api/security/v1beta1"

	"fairway/internal/envoy"
)

// The filter stores the claims of a verified token in the request's dynamic metadata: in the namespace Metadata, below the key Claims.
// Nothing else writes there, so a request without a verified token has no claims.
const (
	Metadata = "envoy.filters.http.jwt_authn"
	Claims   = "payload"
)

// Keys are the keys of an issuer: Local, or, if Cluster is not empty, keys that Envoy fetches itself.
type Keys struct {
	Local string // a JSON Web Key Set

	URI, Cluster string
	Timeout      time.Duration // of a try
	Refresh      time.Duration // how long fetched keys count
}

// Rule is one way to show a token (JWTRule), with the issuer's keys.
type Rule struct {
	Spec *securityv1beta1.JWTRule
	Keys Keys
}

// spaced are the claims that always hold a list of words in one string; a rule may name more (JWTRule.space_delimited_claims).
var spaced = []string{"permission", "scope"}

// Filter builds the filter of all rules that apply to a workload; nil: there are none.
//
// "Each rule will be activated only when a token is presented at the location recognized by the rule", and if several rules look at the
// same place, a token of any of their issuers is valid. So a request passes if some rule finds a valid token, or if no rule finds any
// token. A bad token is refused.
func Filter(rules []Rule) *hcmv3.HttpFilter {
	if len(rules) == 0 {
		return nil
	}
	m := &jwtauthnv3.JwtAuthentication{
		Providers:           map[string]*jwtauthnv3.JwtProvider{},
		BypassCorsPreflight: true, // browsers send no credentials with it
	}
	var verified, tolerated []*jwtauthnv3.JwtRequirement
	for i, r := range rules {
		name := fmt.Sprintf("origins-%d", i)
		m.Providers[name] = r.provider()
		by := &jwtauthnv3.JwtRequirement{RequiresType: &jwtauthnv3.JwtRequirement_ProviderName{ProviderName: name}}
		none := &jwtauthnv3.JwtRequirement{RequiresType: &jwtauthnv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}}}
		verified, tolerated = append(verified, by), append(tolerated, anyOf(by, none))
	}
	requires := tolerated[0]
	if len(rules) > 1 {
		all := &jwtauthnv3.JwtRequirement{RequiresType: &jwtauthnv3.JwtRequirement_RequiresAll{
			RequiresAll: &jwtauthnv3.JwtRequirementAndList{Requirements: tolerated},
		}}
		requires = anyOf(append(verified, all)...)
	}
	m.Rules = []*jwtauthnv3.RequirementRule{{
		Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{}}, // also CONNECT and *, which begin with no slash
		RequirementType: &jwtauthnv3.RequirementRule_Requires{Requires: requires},
	}}
	return &hcmv3.HttpFilter{Name: Metadata, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(m)}}
}

func anyOf(list ...*jwtauthnv3.JwtRequirement) *jwtauthnv3.JwtRequirement {
	return &jwtauthnv3.JwtRequirement{RequiresType: &jwtauthnv3.JwtRequirement_RequiresAny{
		RequiresAny: &jwtauthnv3.JwtRequirementOrList{Requirements: list},
	}}
}

func (r Rule) provider() *jwtauthnv3.JwtProvider {
	p := &jwtauthnv3.JwtProvider{
		Issuer:               r.Spec.GetIssuer(),
		Audiences:            r.Spec.GetAudiences(),
		Forward:              r.Spec.GetForwardOriginalToken(),
		ForwardPayloadHeader: r.Spec.GetOutputPayloadToHeader(),
		FromParams:           r.Spec.GetFromParams(),
		FromCookies:          r.Spec.GetFromCookies(),
		PayloadInMetadata:    Claims,
		NormalizePayloadInMetadata: &jwtauthnv3.JwtProvider_NormalizePayload{
			SpaceDelimitedClaims: words(slices.Concat(spaced, r.Spec.GetSpaceDelimitedClaims())),
		},
		ClearRouteCache: true, // routes may go by claims
	}
	for _, h := range r.Spec.GetFromHeaders() {
		p.FromHeaders = append(p.FromHeaders, &jwtauthnv3.JwtHeader{Name: h.GetName(), ValuePrefix: h.GetPrefix()})
	}
	for _, c := range r.Spec.GetOutputClaimToHeaders() {
		p.ClaimToHeaders = append(p.ClaimToHeaders, header(c))
	}
	r.Keys.of(p)
	return p
}

// header copies a claim to a header. Dots in the claim's name lead into nested claims, unless the name is a URL.
func header(c *securityv1beta1.ClaimToHeader) *jwtauthnv3.JwtClaimToHeader {
	out := &jwtauthnv3.JwtClaimToHeader{HeaderName: c.GetHeader(), ClaimName: c.GetClaim()}
	if strings.Contains(c.GetClaim(), "://") {
		out.ClaimName, out.ClaimPath = "", []*jwtauthnv3.JwtClaimToHeader_PathSegment{{Key: c.GetClaim()}}
	}
	return out
}

// words returns each word once, sorted.
func words(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// of sets the keys that a provider verifies tokens with.
func (k Keys) of(p *jwtauthnv3.JwtProvider) {
	if k.Cluster == "" {
		p.JwksSourceSpecifier = &jwtauthnv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: k.Local},
		}}
		return
	}
	p.JwksSourceSpecifier = &jwtauthnv3.JwtProvider_RemoteJwks{RemoteJwks: &jwtauthnv3.RemoteJwks{
		HttpUri: &corev3.HttpUri{
			Uri: k.URI, Timeout: durationpb.New(k.Timeout), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: k.Cluster},
		},
		CacheDuration: durationpb.New(k.Refresh),
		// The keys are there before the first token comes; a listener does not wait for them.
		AsyncFetch: &jwtauthnv3.JwksAsyncFetch{FastListener: true},
	}}
}
