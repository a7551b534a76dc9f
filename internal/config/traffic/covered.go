package traffic

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/mesh/code"
)

// mostCompared bounds what comparing the matches of one VirtualService costs, in conditions that are compared.
const mostCompared = 1 << 20

// warnUnreachable warns about routes and matches that get no requests. Routes are tried in order, so a route after one that matches
// everything gets none, and neither does a match that an earlier one covers.
func warnUnreachable(c *rule.Check, at *report.Path, routes []*networking.HTTPRoute) {
	all := len(routes)
	for i, r := range routes {
		if takesAll(r) {
			all = i
			break
		}
	}
	for j := all + 1; j < len(routes); j++ {
		c.Warn(at.Of("http", j), code.Unreachable, fmt.Sprintf("no request gets here: http[%d] before it matches every one", all),
			"put it first")
	}
	warnCovered(c, at, routes[:min(all+1, len(routes))])
}

// takesAll reports whether a route matches all requests. A route with a delegate depends on the delegate, so it does not.
func takesAll(r *networking.HTTPRoute) bool {
	if r.Delegate != nil {
		return false
	}
	for _, m := range r.Match {
		if matchesAll(m) {
			return true
		}
	}
	return len(r.Match) == 0
}

// placed is a match and its place.
type placed struct {
	route, index int
	match        *networking.HTTPMatchRequest
}

func (p placed) String() string { return fmt.Sprintf("http[%d].match[%d]", p.route, p.index) }

// warnCovered warns about each match that an earlier match covers, or about a route if that is so for all of its matches.
func warnCovered(c *rule.Check, at *report.Path, routes []*networking.HTTPRoute) {
	var before []placed
	compared := 0
	cover := func(matches []placed, m *networking.HTTPMatchRequest) *placed {
		for i := range matches {
			if compared += costOf(matches[i].match, m); compared > mostCompared {
				return nil
			}
			if covers(matches[i].match, m) {
				return &matches[i]
			}
		}
		return nil
	}
	for j, r := range routes {
		var own []placed
		var by []*placed
		covered := 0
		for k, m := range r.Match {
			found := cover(before, m)
			if found == nil {
				found = cover(own, m)
			}
			if by = append(by, found); found != nil {
				covered++
			}
			own = append(own, placed{j, k, m})
		}
		here := at.Of("http", j)
		for k, found := range by {
			switch {
			case found == nil:
			case covered == len(by) && found.route < j:
				if k == 0 {
					c.Warn(here, code.Unreachable,
						"no request gets here: what it matches, "+found.String()+" before it takes", "put it first")
				}
			default:
				c.Warn(here.Of("match", k), code.Unreachable,
					"the match has no effect: what it matches, "+found.String()+" before it takes", "leave it out, or put it first")
			}
		}
		if r.Delegate == nil {
			before = append(before, own...)
		}
	}
}

// costOf returns the cost of covers for two matches: their conditions, and the text that is put in lower case.
func costOf(a, b *networking.HTTPMatchRequest) int {
	n := 1 + len(a.SourceLabels) + len(a.Headers) + len(a.QueryParams) + len(a.WithoutHeaders)
	if len(a.Gateways) > 0 {
		n += len(a.Gateways) + len(b.Gateways)
	}
	if a.IgnoreUriCase {
		n += (len(a.Uri.GetExact()) + len(a.Uri.GetPrefix()) + len(b.Uri.GetExact()) + len(b.Uri.GetPrefix())) / 64
	}
	return n
}

// covers reports whether a matches every request that b matches. If that is not certain, it returns false.
func covers(a, b *networking.HTTPMatchRequest) bool {
	if a.Port != 0 && a.Port != b.Port || a.SourceNamespace != "" && a.SourceNamespace != b.SourceNamespace {
		return false
	}
	for k, v := range a.SourceLabels {
		if b.SourceLabels[k] != v {
			return false
		}
	}
	for _, set := range [...][2]map[string]*networking.StringMatch{{a.Headers, b.Headers}, {a.QueryParams, b.QueryParams}} {
		for name, want := range set[0] {
			if has, ok := set[1][name]; !ok || want.GetMatchType() != nil && !coversText(want, has) {
				return false
			}
		}
	}
	for name, want := range a.WithoutHeaders {
		if has, ok := b.WithoutHeaders[name]; !ok || !proto.Equal(want, has) {
			return false
		}
	}
	return coversGateways(a.Gateways, b.Gateways) && coversPath(a, b) && coversText(a.Scheme, b.Scheme) &&
		coversText(a.Method, b.Method) && coversText(a.Authority, b.Authority)
}

// coversGateways: a match without gateways is for the gateways of its rule.
func coversGateways(a, b []string) bool {
	if len(a) == 0 {
		return true
	}
	in := map[string]bool{}
	for _, g := range a {
		in[g] = true
	}
	for _, g := range b {
		if !in[g] {
			return false
		}
	}
	return len(b) > 0
}

// coversPath compares paths, which may be matched without regard to case.
func coversPath(a, b *networking.HTTPMatchRequest) bool {
	if b.IgnoreUriCase && !a.IgnoreUriCase {
		return a.Uri == nil
	}
	if !a.IgnoreUriCase {
		return coversText(a.Uri, b.Uri)
	}
	return coversText(lower(a.Uri), lower(b.Uri))
}

func lower(m *networking.StringMatch) *networking.StringMatch {
	switch of := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: strings.ToLower(of.Exact)}}
	case *networking.StringMatch_Prefix:
		return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: strings.ToLower(of.Prefix)}}
	}
	return m
}

// coversText reports whether a matches every text that b does; nil matches all. A regular expression covers only an equal one.
func coversText(a, b *networking.StringMatch) bool {
	if a == nil {
		return true
	}
	switch of := a.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		is, ok := b.GetMatchType().(*networking.StringMatch_Exact)
		return ok && is.Exact == of.Exact
	case *networking.StringMatch_Prefix:
		switch is := b.GetMatchType().(type) {
		case *networking.StringMatch_Exact:
			return strings.HasPrefix(is.Exact, of.Prefix)
		case *networking.StringMatch_Prefix:
			return strings.HasPrefix(is.Prefix, of.Prefix)
		}
	case *networking.StringMatch_Regex:
		is, ok := b.GetMatchType().(*networking.StringMatch_Regex)
		return ok && is.Regex == of.Regex
	}
	return false
}
