package mesh_test

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"fairway/internal/mesh"
)

func TestInternerGivesEqualStringsOneCopy(t *testing.T) {
	var i mesh.Interner
	one, two := i.Labels(map[string]string{"app": "a", "b": "c"}), i.Labels(map[string]string{"b": "c", "app": "a"})
	if one != two || unsafe.StringData(string(one)) != unsafe.StringData(string(two)) {
		t.Errorf("%q and %q are not one copy", one, two)
	}
	if got := i.String(""); got != "" {
		t.Errorf("%q", got)
	}
}

// Strings that strangers make up are dropped again, and do not evict strings that are in use.
func TestInternerIsBounded(t *testing.T) {
	var i mesh.Interner
	used := i.String(strings.Clone("in use"))
	for n := range 1 << 18 {
		i.String(strconv.Itoa(n))
		if n%1000 == 0 && unsafe.StringData(i.String(strings.Clone("in use"))) != unsafe.StringData(used) {
			t.Fatalf("after %d others there is a second copy of what is in use", n)
		}
	}
	if n := i.Len(); n > 1<<16 {
		t.Errorf("it holds %d strings", n)
	}
}
