package gatewayapi_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden runs testdata/*.txtar: objects of the Gateway API and proxies in, all that gateways are sent out.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
