package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the results of golden tests into their files")

// Update reports whether tests write their results into golden files.
func Update() bool { return *update }

// File compares a result with a file. With -update it writes the file.
func File(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		write(t, file, []byte(got))
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	compare(t, file, string(want), got)
}

// Run runs a test for each archive with a path that matches the pattern. The test's name is the file's without its extension.
func Run(t *testing.T, pattern string, test func(*testing.T, *Archive)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			a := Read(t, file)
			test(t, a)
			a.write(t)
		})
	}
}

// Archive is a txtar file with the inputs of a test and its expected results.
type Archive struct {
	txtar.Archive
	Path    string // absolute, for tests that change their folder
	changed bool
}

// Read reads an archive.
func Read(t testing.TB, file string) *Archive {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Archive{Archive: *a, Path: path}
}

// Words are the words of the comment's last line.
func (a *Archive) Words() []string {
	lines := strings.Split(strings.TrimSpace(string(a.Comment)), "\n")
	return strings.Fields(lines[len(lines)-1])
}

// Has reports whether there is a file of a name.
func (a *Archive) Has(name string) bool { return a.index(name) >= 0 }

func (a *Archive) index(name string) int {
	return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
}

// File returns the text of a file; none if there is no such file.
func (a *Archive) File(name string) []byte {
	if i := a.index(name); i >= 0 {
		return a.Files[i].Data
	}
	return nil
}

// Inputs returns all files but those of the results.
func (a *Archive) Inputs(results ...string) (out []txtar.File) {
	for _, f := range a.Files {
		if !slices.Contains(results, f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// Result compares a result with the file of its name. A missing file counts as empty. With -update the archive is written at the end of its
// test.
func (a *Archive) Result(t testing.TB, name, got string) {
	t.Helper()
	i := a.index(name)
	switch {
	case i >= 0 && got == "" && *update:
		a.Files, a.changed = slices.Delete(a.Files, i, i+1), true
		return
	case i < 0 && got == "":
		return
	case i < 0:
		i = len(a.Files)
		a.Files = append(a.Files, txtar.File{Name: name})
	}
	a.ResultAt(t, i, got)
}

// ResultAt is Result for the file at an index: several files of an archive may have the same name.
func (a *Archive) ResultAt(t testing.TB, i int, got string) {
	t.Helper()
	f := &a.Files[i]
	switch {
	case string(f.Data) == got:
	case *update:
		f.Data, a.changed = []byte(got), true
	default:
		compare(t, filepath.Base(a.Path)+": "+f.Name, string(f.Data), got)
	}
}

// write writes the archive if its results changed.
func (a *Archive) write(t testing.TB) {
	t.Helper()
	if a.changed {
		write(t, a.Path, txtar.Format(&a.Archive))
	}
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	if before, err := os.ReadFile(file); err == nil && bytes.Equal(before, text) {
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // test data is for all
		t.Fatal(err)
	}
}

func compare(t testing.TB, name, want, got string) {
	t.Helper()
	if want != got {
		t.Errorf("%s (-want +got; -update writes it):\n%s", name, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}
