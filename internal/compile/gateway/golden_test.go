package gateway_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/route/routetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txtar: rules and proxies in, all that gateways are sent out.
func TestGolden(t *testing.T) { routetest.Golden(t, *update) }
