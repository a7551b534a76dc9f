package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// What Envoy's filter for JSON Web Tokens says of a token that it verified is dynamic metadata of the request: its
// claims stand below ClaimsKey in the namespace ClaimsFilter. Nobody else writes there, so a request without a verified
// token has none.
const (
	ClaimsFilter = "envoy.filters.http.jwt_authn"
	ClaimsKey    = "payload"
)

// claim translates a condition on a claim. Claims are told apart by Envoy where they are strings, or lists of strings
// of which one has to match.
func (b *Builder) claim(out *routev3.RouteMatch, field string, path []string, m *networking.StringMatch, without bool) bool {
	if len(path) == 0 {
		b.problem(
			mesh.Error,
			code.BadClaim,
			field,
			"the condition names no claim: this match block is left out",
			"write @request.auth.claims.<name> or @request.auth.claims[<name>]",
		)
		return false
	}
	value, ok := b.stringMatcher(field, m)
	if !ok {
		return false
	}
	c := &matcherv3.MetadataMatcher{
		Filter: ClaimsFilter,
		Path:   []*matcherv3.MetadataMatcher_PathSegment{segment(ClaimsKey)},
		Value:  claimValue(value),
		Invert: without,
	}
	for _, name := range path {
		c.Path = append(c.Path, segment(name))
	}
	out.DynamicMetadata = append(out.DynamicMetadata, c)
	outcome := "holds for no request"
	if without {
		outcome = "holds for every request"
	}
	b.problem(mesh.Warning, code.NotYet, field, "proxies do not verify tokens yet, so no request has claims: this condition "+outcome, "")
	return true
}

func segment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}

// claimValue matches a claim that is the string, or a list with it; nil: any claim, if it is there.
func claimValue(s *matcherv3.StringMatcher) *matcherv3.ValueMatcher {
	if s == nil {
		return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
	}
	word := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: s}}
	list := &matcherv3.ListMatcher{MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: word}}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{
		ValueMatchers: []*matcherv3.ValueMatcher{word, {MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: list}}},
	}}}
}
