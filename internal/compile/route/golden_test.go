package route_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden runs testdata/*.txtar: objects and proxies in, virtual hosts, route configurations and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
