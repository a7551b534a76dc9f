package app_test

import (
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/test/plane"
)

// TestUnenforcedPoliciesComeFirst: a policy that nothing carries out fails open, so it is an error, the first of all problems.
func TestUnenforcedPoliciesComeFirst(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Apply(t, "a-broken.yaml", "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: broken}\nspec: {}\n")
	p.Apply(t, "b-audit.yaml", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: watch}\nspec: {action: AUDIT}\n")
	p.Apply(t, "z-policy.yaml", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: nobody, namespace: shop}\nspec: {}\n"+
		"---\napiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: tokens, namespace: shop}\nspec: {jwtRules: [{issuer: a}]}\n")
	var got []string
	for _, problem := range p.Discovery.Problems() {
		got = append(got, problem.Severity.String()+" "+problem.Code+" "+problem.Object.Name)
	}
	want := []string{"error " + mesh.NotEnforced + " nobody", "error " + mesh.NotEnforced + " tokens", "error Missing broken", "info NotYet watch"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
