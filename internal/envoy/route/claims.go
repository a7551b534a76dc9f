package route

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"

	users "fairway/internal/config"
	"fairway/internal/envoy/authentication"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// claim translates a condition on a claim of the request's verified token. A request without a token has no claims. Envoy can match a
// claim that is a string, or a list in which one string must match.
func (b *Builder) claim(out *routev3.RouteMatch, field string, path []string, m *networking.StringMatch, without bool) bool {
	if len(path) == 0 {
		b.problem(mesh.Error, code.BadClaim, field, "the condition names no claim: this match block is left out",
			"write @request.auth.claims.<name> or @request.auth.claims[<name>]")
		return false
	}
	value, ok := b.stringMatcher(field, m)
	if !ok {
		return false
	}
	c := &matcherv3.MetadataMatcher{
		Filter: authentication.Metadata,
		Path:   []*matcherv3.MetadataMatcher_PathSegment{segment(authentication.Claims)},
		Value:  claimValue(value),
		Invert: without,
	}
	for _, name := range path {
		c.Path = append(c.Path, segment(name))
	}
	out.DynamicMetadata = append(out.DynamicMetadata, c)
	return true
}

// claimMistakes notes conditions on claims in match blocks for sidecars, which verify no tokens.
func (b *Builder) claimMistakes(rule Rule, field string, m *networking.HTTPMatchRequest) {
	if !slices.Contains(gatewaysOf(rule, m), Mesh) {
		return
	}
	for _, at := range []struct {
		field, outcome string
		of             map[string]*networking.StringMatch
	}{{".headers.", "no", m.GetHeaders()}, {".withoutHeaders.", "every", m.GetWithoutHeaders()}} {
		for _, name := range slices.Sorted(maps.Keys(at.of)) {
			if _, is := users.ClaimPath(name); is {
				b.problem(mesh.Warning, code.Unused, field+at.field+name,
					"sidecars verify no tokens of requests that they send: of these the condition holds for "+at.outcome+" one",
					"bind the rule to a gateway, where a RequestAuthentication has tokens verified")
			}
		}
	}
}

func segment(key string) *matcherv3.MetadataMatcher_PathSegment {
	return &matcherv3.MetadataMatcher_PathSegment{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}
}

// claimValue matches a claim that is the string, or a list that contains it; nil: any claim that is present.
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
