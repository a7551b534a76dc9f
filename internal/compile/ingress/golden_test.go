package ingress_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/compiletest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txtar: Ingresses and proxies in, all that gateways are sent out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar", *update) }
