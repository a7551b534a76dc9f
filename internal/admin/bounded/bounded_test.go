package bounded

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/xdstype"
)

// TestFirst: names that cannot be labels have no series, and so many others have, the first by name.
func TestFirst(t *testing.T) {
	long := strings.Repeat("x", nameBytes+1)
	if got := First([]string{"west", "a\nb", "", long, "east", "\xff"}); !slices.Equal(got, []string{"east", "west"}) {
		t.Errorf("%q", got)
	}
	var names []string
	for i := range 3 * Most {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	if got := First(names); len(got) != Most || got[Most-1] != fmt.Sprintf("c%03d", Most-1) {
		t.Errorf("%d names", len(got))
	}
}

// TestSet: the first names keep their labels, further ones share one.
func TestSet(t *testing.T) {
	var s Set
	for i := range 3 * Most {
		name := fmt.Sprint(i)
		want := name
		if i >= Most {
			want = xdstype.Other
		}
		if got := s.Label(name); got != want {
			t.Errorf("%s has the label %s", name, got)
		}
	}
	if s.Label("7") != "7" || s.Label("a\nb") != xdstype.Other || len(s.names) != Most {
		t.Errorf("%d names", len(s.names))
	}
}
