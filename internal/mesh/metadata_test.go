package mesh

import (
	"fmt"
	"strings"
	"testing"
)

// TestMetadata: texts are found by name; values that are not text, too long or too many are dropped; the order does not matter.
func TestMetadata(t *testing.T) {
	m := MakeMetadata(map[string]any{
		"A": "1", "B": "say \"b\"", "C": true, "D": map[string]any{"A": "2"},
		"E": strings.Repeat("x", maxMetadataEntry+1), "": "", "\xff": "1",
	})
	for key, want := range map[string]string{"A": "1", "B": `say "b"`, "": ""} {
		if got, ok := m.Get(key); !ok || got != want {
			t.Errorf("%q is %q, %v, want %q", key, got, ok, want)
		}
	}
	for _, key := range []string{"C", "D", "E", "\xff", "1"} {
		if got, ok := m.Get(key); ok {
			t.Errorf("%q is %q", key, got)
		}
	}
	many := map[string]any{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = "some text"
	}
	if got := MakeMetadata(many); len(got) > maxMetadata || len(got) < maxMetadata/2 {
		t.Errorf("%d bytes are kept", len(got))
	}
	if got, ok := Metadata("no metadata").Get("A"); ok {
		t.Errorf("what is none has %q", got)
	}
}
