package delegate_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden runs testdata/*.txtar: VirtualServices that delegate and proxies in, routes and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
