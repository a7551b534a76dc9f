package peer_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/compiletest"
)

var update = flag.Bool("update", false, "rewrite what goldens expect")

// TestGolden shows what ports take in the print of "inbounds": nothing is plaintext only.
func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar", *update) }
