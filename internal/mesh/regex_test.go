package mesh_test

import (
	"testing"

	"fairway/internal/mesh"
)

// TestCheckRegex: an expression that Go accepts is refused if, and only if, Envoy refuses it.
func TestCheckRegex(t *testing.T) {
	for _, re := range []string{
		`\p{LC}`, `\p{ASCII}`, `\p{Assigned}`, `\p{Cn}`, `\p{greek}`, `\p{Letter}`, `\p{^LC}`, `\P{ASCII}`, `[\p{LC}]`, `\p{Garay}`,
		`\x{10FFFF}`, `\x{100}`, `[a-\x{3b1}]`, `(?<n>a)`, `(`, `a**`, `\Qa\E\x{400}`,
	} {
		if mesh.CheckRegex(re) == nil {
			t.Errorf("%s is taken", re)
		}
	}
	for _, re := range []string{
		"", ".*", `\pL`, `\p{L}`, `\p{^Lu}`, `\P{Greek}`, `\p{Any}`, `\x{ff}`, `\xff`, `é+`, `\Q\p{LC}\E`, `\\p{LC}`, `a\.b`, `(?i)x`, `\Q\x{100}`,
	} {
		if err := mesh.CheckRegex(re); err != nil {
			t.Errorf("%s: %v", re, err)
		}
	}
}
