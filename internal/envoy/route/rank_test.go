package route

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// TestRank: "If multiple paths match, precedence is given first to the longest matching path", then "to paths with an exact path type over
// prefix path type" (Ingress of Kubernetes); of equal paths more conditions go first.
func TestRank(t *testing.T) {
	header, parameter := &routev3.HeaderMatcher{Name: "a"}, &routev3.QueryParameterMatcher{Name: "a"}
	regex := &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "/abcdef"}}
	want := []*routev3.Route{
		{Name: "longer exact", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/ab"}}},
		{Name: "exact", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/a"}}},
		{Name: "regex", Match: &routev3.RouteMatch{PathSpecifier: regex}},
		{Name: "elements", Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: "/abcd"},
		}},
		{Name: "prefix", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/abc"}}},
		{Name: "two headers", Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}, Headers: []*routev3.HeaderMatcher{header, header},
		}},
		{Name: "header and parameter", Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}, Headers: []*routev3.HeaderMatcher{header},
			QueryParameters: []*routev3.QueryParameterMatcher{parameter},
		}},
		{Name: "header", Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}, Headers: []*routev3.HeaderMatcher{header},
		}},
		{Name: "parameter", Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}, QueryParameters: []*routev3.QueryParameterMatcher{parameter},
		}},
		{Name: "first of equals", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}}},
		{Name: "second of equals", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/b"}}},
		{Name: "all", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}},
		{Name: "connect", Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_ConnectMatcher_{}}},
	}
	names := func(routes []*routev3.Route) string {
		var out []string
		for _, r := range routes {
			out = append(out, r.GetName())
		}
		return strings.Join(out, ", ")
	}
	mixed := slices.Clone(want)
	slices.Reverse(mixed)
	equal := len(mixed) - 11
	mixed[equal], mixed[equal+1] = mixed[equal+1], mixed[equal]
	if Rank(mixed); names(mixed) != names(want) {
		t.Errorf("%s\nwant %s", names(mixed), names(want))
	}
	for _, r := range want {
		if got := CatchAll(r); got != (r.GetName() == "all") {
			t.Errorf("%s takes every request: %v", r.GetName(), got)
		}
	}
}

// TestByElements: a prefix of an Ingress matches whole path elements.
func TestByElements(t *testing.T) {
	for prefix, want := range map[string]string{"/a": "/a", "/a/": "/a", "/a/b/": "/a/b", "/": ""} {
		m := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}}
		if byElements(m); m.GetPathSeparatedPrefix() != want || want == "" && m.GetPrefix() != "/" {
			t.Errorf("%s becomes %v", prefix, m)
		}
	}
	exact := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/a"}}
	if byElements(exact); exact.GetPath() != "/a" {
		t.Errorf("an exact path becomes %v", exact)
	}
}
