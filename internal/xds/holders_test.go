package xds

import (
	"fmt"
	"testing"
)

// TestHolders: the holder with the most streams loses its newest one, which is the newcomer if it belongs to this holder.
func TestHolders(t *testing.T) {
	h := newHolders()
	all := map[string][]*stream{}
	for holder, n := range map[string]int{"many": 5, "some": 3, "one": 1} {
		for range n {
			st := &stream{holder: holder}
			h.add(st)
			all[holder] = append(all[holder], st)
		}
	}
	for _, newcomer := range []string{"new", "one", "some"} {
		if st, n := h.newestOfMost(newcomer); st != all["many"][4] || n != 5 {
			t.Errorf("for %s: %v of %d", newcomer, st, n)
		}
	}
	if st, _ := h.newestOfMost("many"); st != nil {
		t.Errorf("for many itself: %v", st)
	}
	for _, st := range all["many"] {
		h.remove(st)
	}
	if st, n := h.newestOfMost("new"); st != all["some"][2] || n != 3 {
		t.Errorf("without many: %v of %d", st, n)
	}
	for _, st := range append(all["some"], all["one"]...) {
		h.remove(st)
	}
	if fmt.Sprint(len(h.by), len(h.having), h.most) != "0 0 0" {
		t.Errorf("what is left: %+v", h)
	}
}
