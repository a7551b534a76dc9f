package telemetry_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
)

func TestGolden(t *testing.T) { compiletest.Golden(t, "testdata/*.txtar") }
