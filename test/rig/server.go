package rig

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"testing"
)

// served is the variable that `make test` sets to leave out the tests that run real servers: a regular expression of their names.
const served = "FAIRWAY_SERVED"

// Server returns the files that run a real server. obtain builds or downloads them if they are missing (minutes, once a machine). The test
// is skipped with -short, if obtain fails with an error of absent, and if `make test-platforms` runs it instead of the command under way. A
// test that neither of the two would run fails.
func Server[S any](t testing.TB, obtain func(context.Context, io.Writer) (S, error), absent ...error) S {
	t.Helper()
	if testing.Short() {
		t.Skip("a real server takes seconds")
	}
	if names := os.Getenv(served); names != "" {
		if is, err := regexp.MatchString("^("+names+")", t.Name()); err != nil || !is {
			t.Fatalf("a real server, and `make test-platforms` does not run it: name it in the Makefile's SERVED (%s, %v)", names, err)
		}
		t.Skip("`make test-platforms` runs it")
	}
	out, err := obtain(t.Context(), os.Stderr)
	for _, a := range absent {
		if errors.Is(err, a) {
			t.Skip(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
