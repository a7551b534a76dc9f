package analyze_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairway/internal/analyze"
	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/test/rig"
)

// TestGolden analyzes the files of each archive. The last line of its comment has the paths, after words that set options: recursive,
// ignore-unknown, namespace=NAME, mesh=FILE. "-" is the archive's file stdin. problems is what must come out.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", analyzed)
}

func analyzed(t *testing.T, a *golden.Archive) {
	o := analyze.Options{}
	t.Chdir(t.TempDir())
	for _, f := range a.Inputs("problems") {
		if f.Name == "stdin" {
			o.Stdin = strings.NewReader(string(f.Data))
		} else {
			rig.Write(t, ".", f.Name, f.Data)
		}
	}
	for _, word := range a.Words() {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "recursive":
			o.Recursive = true
		case "ignore-unknown":
			o.IgnoreUnknown = true
		case "namespace":
			o.Namespace = value
		case "mesh":
			o.MeshConfig = value
		default:
			o.Paths = append(o.Paths, word)
		}
	}
	problems, err := analyze.Run(context.Background(), o)
	got := text(problems)
	if err != nil {
		got += "unread: " + err.Error() + "\n"
	}
	a.Result(t, "problems", got)
}

func text(problems []mesh.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s %s\n", p.Code, p)
	}
	return b.String()
}

// TestExamplesAreClean: the objects that the README tells users to apply have no errors.
func TestExamplesAreClean(t *testing.T) {
	o := analyze.Options{Paths: []string{filepath.Join("..", "..", "examples")}, Recursive: true, IgnoreUnknown: true}
	problems, err := analyze.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if bad := slices.DeleteFunc(problems, func(p mesh.Problem) bool { return p.Severity < mesh.Error }); len(bad) > 0 {
		t.Errorf("examples/ has\n%s", text(bad))
	}
}

// TestNothing: to name neither files nor a cluster is a mistake of the caller.
func TestNothing(t *testing.T) {
	if _, err := analyze.Run(context.Background(), analyze.Options{}); !errors.Is(err, analyze.ErrNothing) {
		t.Error(err)
	}
}
