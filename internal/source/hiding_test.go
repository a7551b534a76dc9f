package source

import (
	"strings"
	"testing"

	"fairway/internal/mesh"
)

type last struct{ u Update }

func (l *last) Apply(u Update) { l.u = u }

// No text about a source that reaches the sink has a secret in it; problems that are taken back still are.
func TestHiding(t *testing.T) {
	const token = "secret"
	var got last
	hide := func(s string) string { return strings.ReplaceAll(s, token, "…") }
	Hiding(&got, hide).Apply(Update{Stale: "refused secret", Problems: map[string][]mesh.Problem{
		"at secret": {{Message: "it says secret", Fix: "secret", Object: mesh.ObjectRef{Name: token}}}, "gone": nil,
	}})
	list, back := got.u.Problems["at …"]
	gone, taken := got.u.Problems["gone"]
	if got.u.Stale != "refused …" || !back || strings.Contains(list[0].String(), token) || !taken || len(gone) > 0 {
		t.Errorf("the sink has %+v", got.u)
	}
}
