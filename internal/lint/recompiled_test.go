package lint

import (
	"os/exec"
	"regexp"
	"testing"
)

// TestTestsRecompileLittle: if a package has tests inside it, and its external tests import packages that import it, Go compiles all of
// these packages once more, only for its tests. For a package that most of the program imports that costs minutes.
func TestTestsRecompileLittle(t *testing.T) {
	const most = 6 // packages, the tests' own among them
	list := exec.Command("go", "list", "-deps", "-test", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	again := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\S+ \[(\S+)\.test\]$`).FindAllStringSubmatch(string(out), -1) {
		again[m[1]]++
	}
	if len(again) < 50 {
		t.Fatalf("%d packages have tests: go list says something else than it did", len(again))
	}
	for pkg, n := range again {
		if n > most {
			t.Errorf("the tests of %s have %d packages compiled once more: let those inside the package be outside of it", pkg, n)
		}
	}
}
