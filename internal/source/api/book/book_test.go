package book_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairway/internal/disk"
	"fairway/internal/source/api/book"
)

func everything(*book.Entry) bool { return true }

func service(name, body string) book.Entry {
	e := book.Entry{Key: book.Key{Namespace: "n", Name: name}, Instances: len(body), Ports: 1}
	if body != "" {
		e.Body = []byte(body)
	}
	return e
}

// TestReadersMissNothing: after any changes, a cursor from any revision sees each thing that changed since, once, in its newest version.
func TestReadersMissNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := book.New(time.UnixMicro(1000))
		changed, newest := map[string]uint64{}, map[string]string{}
		since := b.Revision()
		for i, name := range rapid.SliceOfN(rapid.StringMatching(`[a-z]`), 1, 3000).Draw(rt, "names") {
			body := strings.Repeat("x", rapid.IntRange(0, 3).Draw(rt, "size"))
			e := b.Put(service(name, body))
			if i == 20 {
				since = e.Revision
				clear(changed)
			} else {
				changed[name] = e.Revision
			}
			if newest[name] = body; body == "" {
				delete(newest, name)
			}
		}
		got, most := map[string]uint64{}, rapid.IntRange(1, 30).Draw(rt, "most")
		for to := since; ; {
			found, next := b.Since(to, most, 1<<20, everything)
			for _, e := range found {
				if e.Revision <= to || got[e.Key.Name] != 0 {
					rt.Fatalf("%s in revision %d comes again after %d", e.Key.Name, e.Revision, to)
				}
				to, got[e.Key.Name] = e.Revision, e.Revision
			}
			if len(found) > most || next < to {
				rt.Fatalf("%d entries of at most %d, up to %d of %d", len(found), most, next, to)
			}
			if to = next; to == b.Revision() {
				break
			}
		}
		if !maps.Equal(got, changed) {
			rt.Fatalf("after %d came %v, want %v", since, got, changed)
		}
		amount := b.Amount()
		for _, e := range b.All() {
			if newest[e.Key.Name] != string(e.Body) {
				rt.Fatalf("%s is %q, want %q", e.Key.Name, e.Body, newest[e.Key.Name])
			}
			amount.Add(e, -1)
		}
		if b.Amount().Things() != len(newest) || amount != (book.Amount{}) {
			rt.Fatalf("%+v is counted, %d are stored; without them %+v is left", b.Amount(), len(newest), amount)
		}
	})
}

// TestRemovalsAreForgotten: the number of removals that are remembered is bounded, and Floor says which are complete.
func TestRemovalsAreForgotten(t *testing.T) {
	b := book.New(time.UnixMicro(1000))
	begun := b.Revision()
	for i := range 10_000 {
		b.Put(service(fmt.Sprint(i), ""))
	}
	if b.Floor() != begun {
		t.Errorf("the floor is %d, want %d", b.Floor(), begun)
	}
	oldest := begun + 1
	b.Put(service("more", ""))
	if entries, floor, _ := b.Content(); floor != oldest || len(entries) != 10_000 || entries[0].Revision != oldest+1 {
		t.Errorf("%d entries from %d, the floor is %d", len(entries), entries[0].Revision, floor)
	}
}

// TestJournal: what was flushed is read back, removals too; a line that a crash left half-written is left out; damage elsewhere is an
// error with its line.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	fresh := book.New(time.UnixMicro(1000))
	j, b, err := book.OpenJournal(disk.OS, path, 1<<20, fresh)
	if err != nil || b != fresh {
		t.Fatalf("%p of %p, %v", b, fresh, err)
	}
	for _, e := range []book.Entry{
		service("a", `{"name":"a"}`), service("b", `{"name":"b"}`), service("b", ""),
		{Key: book.Key{Kind: "Sidecar", Namespace: "n", Name: "s"}, Body: []byte("kind: Sidecar\n")},
	} {
		j.Add(b.Put(e))
		if err := j.Flush(b.Revision(), b.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n")) // the head, four changes, nothing
	read := func(content []byte) (string, error) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		j, b, err := book.OpenJournal(disk.OS, path, 1<<20, nil)
		if err != nil {
			return "", err
		}
		defer j.Close()
		var out []string
		entries, _, _ := b.Content()
		for _, e := range entries {
			out = append(out, fmt.Sprintf("%s %d %s", e.Key.Path(), e.Revision-fresh.Floor(), e.Body))
		}
		return strings.Join(out, "; "), nil
	}
	const three = `services/n/a 1 {"name":"a"}; services/n/b 3 `
	const all = three + "; objects/Sidecar/n/s 4 kind: Sidecar\n"
	if got, err := read(whole); got != all || err != nil {
		t.Errorf("%q, %v, want %q", got, err, all)
	}
	for cut := len(whole) - len(lines[4]); cut < len(whole); cut++ {
		if got, err := read(whole[:cut]); got != three || err != nil {
			t.Fatalf("cut at %d of %d: %q, %v, want %q", cut, len(whole), got, err, three)
		}
	}
	if _, err := read(bytes.Replace(whole, []byte(`"a"`), []byte(`"x"`), 1)); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("damaged: %v", err)
	}
}
