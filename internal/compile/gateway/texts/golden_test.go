package texts_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden runs testdata/*.txtar: objects and proxies in, the clusters of gateways and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
