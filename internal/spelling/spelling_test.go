package spelling

import (
	"slices"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		most int
		want int
	}{
		{"", "", 3, 0}, {"timeout", "TimeOut", 3, 0}, {"timeot", "timeout", 3, 1}, {"tiemout", "timeout", 3, 2},
		{"hosts", "ports", 3, 2}, {"", "abc", 3, 3},
		{"", "abcd", 3, 4}, {"abcdefgh", "a", 3, 4}, {"kitten", "sitting", 9, 3},
	} {
		if got := Distance(c.a, c.b, c.most); got != c.want || Distance(c.b, c.a, c.most) != c.want {
			t.Errorf("%q and %q are %d apart, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"timeout", "retries", "tls", "route", "routes"}
	for name, want := range map[string]string{
		"timeuot": "did you mean timeout?", "retry": "", "retris": "did you mean retries?", "xyz": "", "tl": "did you mean tls?",
		"rout": "did you mean route?", "routez": "did you mean route?", strings.Repeat("a", 65): "",
	} {
		if got := DidYouMean(name, slices.Values(known), 2); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for one, want := range map[string]string{
		"Service": "Services", "Gateway": "Gateways", "NetworkPolicy": "NetworkPolicies", "IngressClass": "IngressClasses",
		"serviceentry": "serviceentries",
	} {
		if got := Plural(one); got != want {
			t.Errorf("%s: %s, want %s", one, got, want)
		}
	}
}
