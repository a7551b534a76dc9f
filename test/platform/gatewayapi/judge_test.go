package gatewayapi_test

import (
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairway/build/envoybin"
	"fairway/internal/golden"
)

var failing = flag.Bool("conformance.failing", false, "also run the tests of failing.txt: one that passes is an error")

//go:embed failing.txt
var failingText string

// expected returns the tests that are expected to fail, and the reason of each.
func expected(text string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		switch {
		case !ok || reason == "":
			return nil, fmt.Errorf("failing.txt: %q is not NAME: REASON", line)
		case out[name] != "":
			return nil, fmt.Errorf("failing.txt: %s is there twice", name)
		}
		out[name] = reason
	}
	return out, nil
}

// faults compares the results of a run with the expected ones, and returns the differences in the order of the tests' names.
func faults(results, expected map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(results)) {
		reason := expected[name]
		switch {
		case results[name] == "failed" && reason == "":
			out = append(out, name+" failed; correct the fault, or name the test and the cause in failing.txt")
		case results[name] == "passed" && reason != "":
			out = append(out, name+" passes: remove it from failing.txt ("+reason+")")
		}
	}
	return out
}

// passed returns how many tests have passed.
func passed(results map[string]string) (n int) {
	for _, r := range results {
		if r == "passed" {
			n++
		}
	}
	return n
}

// judge reports the differences between a run and the expected results. With -update it writes the report into docs/conformance.
func judge(t *testing.T, name string, results map[string]string, report string) {
	t.Helper()
	known, err := expected(failingText)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults(results, known) {
		t.Error(fault)
	}
	t.Logf("%d tests passed", passed(results))
	if !golden.Update() || *only != "" || *more != "" {
		return
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	root, err := envoybin.Root()
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, filepath.Join(root, "docs", "conformance", name+".yaml"), undated(string(text)))
}

// undated removes a report's date.
func undated(report string) string {
	var out strings.Builder
	for line := range strings.Lines(report) {
		if !strings.HasPrefix(line, "date: ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestJudge(t *testing.T) {
	known, err := expected("# a comment\n\nA: no reason\nB: no: reason\n")
	if err != nil || len(known) != 2 || known["B"] != "no: reason" {
		t.Fatalf("%q, %v", known, err)
	}
	for _, bad := range []string{"A", "A:", "A: b\nA: c"} {
		if got, err := expected(bad); err == nil {
			t.Errorf("%q is read as %q", bad, got)
		}
	}
	got := faults(map[string]string{"A": "failed", "B": "passed", "C": "failed", "D": "passed", "E": "skipped"}, known)
	want := []string{
		"B passes: remove it from failing.txt (no: reason)",
		"C failed; correct the fault, or name the test and the cause in failing.txt",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := undated("a: b\ndate: today\nc: d\n"); got != "a: b\nc: d\n" {
		t.Errorf("%q", got)
	}
}
