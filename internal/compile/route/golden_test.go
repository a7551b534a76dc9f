package route_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/route/routetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txtar: rules and proxies in, virtual hosts, route configurations and problems out.
func TestGolden(t *testing.T) { routetest.Golden(t, *update) }
