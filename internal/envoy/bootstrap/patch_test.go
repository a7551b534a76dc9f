package bootstrap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/printable"
)

// TestPatchReport: an agent's report is decoded as it was encoded, one line for each patch, and fits into the part of an error's text that
// a control plane keeps; other text is skipped.
func TestPatchReport(t *testing.T) {
	if got := EncodePatchReport(nil); got != "" {
		t.Errorf("nothing is %q", got)
	}
	text := EncodePatchReport(map[string]string{"shop/a/0": "cannot bind:\n  in use", "shop/b/1": "too: much"})
	if d := cmp.Diff(map[string]string{"shop/a/0": "cannot bind: in use", "shop/b/1": "too: much"}, DecodePatchReport(text)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("shop/f/%02d", i)] = strings.Repeat("long ", 200)
	}
	text = EncodePatchReport(many)
	if got := DecodePatchReport(printable.Lines(text, printable.Long)); len(text) > printable.Long || len(got) != 2 ||
		got["shop/f/00"] == "" {
		t.Errorf("%d bytes, %v", len(text), got)
	}
	for _, bad := range []string{"", "\n\n", "no mark", ": no name", "\xff\x00"} {
		if got := DecodePatchReport(bad); len(got) != 0 {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
