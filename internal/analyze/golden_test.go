package analyze_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"fairway/internal/analyze"
	"fairway/internal/mesh"
)

var update = flag.Bool("update", false, "rewrite what the goldens expect")

// TestGolden analyzes the files of each archive. The last line of its comment has the paths, after words that set options: recursive,
// ignore-unknown, namespace=NAME, mesh=FILE. "-" is the archive's file stdin. problems is what must come out.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		file, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(a.Comment)), "\n")
	o := analyze.Options{}
	want, kept := "", []txtar.File{}
	t.Chdir(t.TempDir())
	for _, f := range a.Files {
		switch f.Name {
		case "problems":
			want = string(f.Data)
			continue
		case "stdin":
			o.Stdin = strings.NewReader(string(f.Data))
		default:
			if err := os.MkdirAll(filepath.Dir(f.Name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		kept = append(kept, f)
	}
	for _, word := range strings.Fields(lines[len(lines)-1]) {
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
	if *update {
		a.Files = append(kept, txtar.File{Name: "problems", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
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
