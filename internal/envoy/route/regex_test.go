package route

import (
	"strings"
	"testing"

	"fairway/internal/mesh"
)

// TestCheckRegex: what Envoy's engine does not compile, or proxies do not run, is refused.
func TestCheckRegex(t *testing.T) {
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
		if err := mesh.CheckRegex(re); (err == nil) != ok {
			t.Errorf("%.20s… of %d bytes: %v", re, len(re), err)
		}
	}
}
