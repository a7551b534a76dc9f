package proxyconfig_test

import (
	"flag"
	"testing"

	"fairway/internal/compile/compiletest"
)

var update = flag.Bool("update", false, "rewrite what goldens expect")

func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar", *update) }
