package cluster_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/compiletest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txtar: objects and proxies in, clusters, load assignments and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar", *update) }
