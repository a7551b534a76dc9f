package route_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestRoutesAreBuiltOnce: one more host of a rule costs one virtual host, however many routes the rule has.
func TestRoutesAreBuiltOnce(t *testing.T) {
	objects := func(hosts int) uint64 {
		sidecar := compiletest.Sidecar("a", "default", "192.168.0.1")
		_, objects, _ := compiletest.Applied(t, sidecar, compiletest.ManyRoutes("[mesh]", hosts, 300))
		return objects
	}
	if each := (objects(420) - objects(20)) / 400; each > 2000 { // 300 routes of their own are 20,000 and more
		t.Errorf("one host more of a rule with 300 routes allocates %d objects", each)
	}
}
