package delegate_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/compiletest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txtar: VirtualServices that delegate and proxies in, routes and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar", *update) }
