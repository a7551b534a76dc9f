package peer_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

// TestGolden shows what ports take in the print of "inbounds": nothing is plaintext only.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
