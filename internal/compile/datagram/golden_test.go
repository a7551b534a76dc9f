package datagram_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden runs testdata/*.txtar: UDPRoutes and proxies in, listeners, clusters and problems out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
