package sharing_test

import (
	"log/slog"
	"testing"

	"fairway/internal/app/sharing"
)

// TestClaim: a folder is of one control plane until that one gives it up; a second one keeps nothing.
func TestClaim(t *testing.T) {
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	one := sharing.Take(dir, quiet)
	if one.Dir() != dir {
		t.Errorf("the first has %q", one.Dir())
	}
	if two := sharing.Take(dir, quiet); two.Dir() != "" {
		t.Errorf("the second has %q", two.Dir())
	}
	one.Release()
	if three := sharing.Take(dir, quiet); three.Dir() != dir {
		t.Errorf("the third has %q", three.Dir())
	}
	if none := sharing.Take("", quiet); none.Dir() != "" {
		t.Errorf("without a folder: %q", none.Dir())
	}
}
