package regex_test

import (
	"strings"
	"testing"

	"fairway/internal/mesh/regex"
)

// TestCheck: an expression that Go accepts is refused if, and only if, Envoy refuses it.
func TestCheck(t *testing.T) {
	for _, re := range []string{
		`\p{LC}`, `\p{ASCII}`, `\p{Assigned}`, `\p{Cn}`, `\p{greek}`, `\p{Letter}`, `\p{^LC}`, `\P{ASCII}`, `[\p{LC}]`, `\p{Garay}`,
		`\x{10FFFF}`, `\x{100}`, `[a-\x{3b1}]`, `(?<n>a)`, `(`, `a**`, `\Qa\E\x{400}`,
	} {
		if regex.Check(re) == nil {
			t.Errorf("%s is taken", re)
		}
	}
	for _, re := range []string{
		"", ".*", `\pL`, `\p{L}`, `\p{^Lu}`, `\P{Greek}`, `\p{Any}`, `\x{ff}`, `\xff`, `é+`, `\Q\p{LC}\E`, `\\p{LC}`, `a\.b`, `(?i)x`, `\Q\x{100}`,
	} {
		if err := regex.Check(re); err != nil {
			t.Errorf("%s: %v", re, err)
		}
	}
}

// TestLimits: what Envoy's engine does not compile, or proxies do not run, is refused.
func TestLimits(t *testing.T) {
	for re, ok := range map[string]bool{
		"/reviews/[0-9]+":              true,
		"/(unclosed":                   false,
		"(?<name>x)":                   false,
		strings.Repeat("x{1000}", 32):  true,
		strings.Repeat("x{1000}", 33):  false,
		strings.Repeat(".{1000}", 17):  false, // two ranges around the line end
		strings.Repeat("é{1000}", 17):  false, // two bytes
		`\pL{1000}`:                    true,
		strings.Repeat(`\pL{1000}`, 5): false,
	} {
		if err := regex.Check(re); (err == nil) != ok {
			t.Errorf("%.20s… of %d bytes: %v", re, len(re), err)
		}
	}
}
