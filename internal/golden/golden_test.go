package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a test that counts its errors.
type recorder struct {
	testing.TB
	errors int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.errors++ }

// TestArchive: a result that differs from its file is an error; with -update it is written, a new one is added, and an empty one is
// removed.
func TestArchive(t *testing.T) {
	const before = "a command\n-- in --\ntext\n-- same --\n1\n-- other --\n2\n-- gone --\n3\n"
	const after = "a command\n-- in --\ntext\n-- same --\n1\n-- other --\n4\n-- new --\n5\n"
	file := filepath.Join(t.TempDir(), "one.txtar")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	results := func(t testing.TB, a *Archive) {
		if got := a.Words(); len(got) != 2 || got[1] != "command" {
			t.Errorf("the words are %q", got)
		}
		if in := a.Inputs("same", "other", "gone", "new"); len(in) != 1 || string(a.File("in")) != "text\n" {
			t.Errorf("the inputs are %v", in)
		}
		for _, r := range []struct{ name, got string }{{"same", "1\n"}, {"other", "4\n"}, {"gone", ""}, {"new", "5\n"}, {"none", ""}} {
			a.Result(t, r.name, r.got)
		}
	}
	seen := &recorder{TB: t}
	results(seen, Read(t, file))
	if want := 3; seen.errors != want {
		t.Errorf("%d results differ, want %d", seen.errors, want)
	}
	defer func(was bool) { *update = was }(*update)
	*update = true
	a := Read(t, file)
	results(t, a)
	a.write(t)
	if got, err := os.ReadFile(file); err != nil || string(got) != after {
		t.Errorf("it wrote %q, %v", got, err)
	}
	*update = false
	results(t, Read(t, file))
}
