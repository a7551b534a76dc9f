package inference_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden runs testdata/*.txtar: pools, routes and proxies in, what gateways get out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
