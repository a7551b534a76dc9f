package policy_test

import (
	"slices"
	"testing"

	"fairway/internal/compile/policy"
	"fairway/internal/config"
)

// TestSet: equal sets are equal texts, and each policy is found again.
func TestSet(t *testing.T) {
	a := config.Key{Kind: config.AuthorizationPolicy, Namespace: "shop", Name: `a"b`}
	b := config.Key{Kind: config.AuthorizationPolicy, Namespace: "bank", Name: "a"}
	c := config.Key{Kind: config.RequestAuthentication, Namespace: "shop", Name: "a"}
	s := policy.MakeSet(a, b, c, a)
	if s != policy.MakeSet(c, b, a) || s == policy.MakeSet(a, b) || policy.MakeSet() != "" {
		t.Errorf("%q is not canonical", s)
	}
	if got := s.Of(config.AuthorizationPolicy); !slices.Equal(got, []config.Key{b, a}) {
		t.Errorf("policies are %v", got)
	}
	if got := s.Of(config.RequestAuthentication); !slices.Equal(got, []config.Key{c}) {
		t.Errorf("authentications are %v", got)
	}
}
