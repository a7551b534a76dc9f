package lint

import (
	"os/exec"
	"regexp"
	"testing"
)

// TestTestsRecompileLittle: no test compiles much of the tree once more, and nothing imports Kubernetes' client of all kinds. If a package
// has tests inside it, and its external tests import packages that import it, Go compiles all of these packages again, only for its tests.
// For a package that most of the program imports that costs minutes.
func TestTestsRecompileLittle(t *testing.T) {
	const most = 6 // packages, the tests' own among them
	list := exec.Command("go", "list", "-deps", "-test", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/discovery", "k8s.io/client-go/applyconfigurations",
	} {
		if regexp.MustCompile(`(?m)^` + heavy + `(/|$)`).Match(out) {
			t.Errorf("something imports %s, and with it all kinds of Kubernetes: use kubeclient, or plain requests", heavy)
		}
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
