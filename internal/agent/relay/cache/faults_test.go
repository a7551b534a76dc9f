package cache

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"fairway/internal/disk"
	"fairway/internal/disk/faulty"
)

// trouble fails an operation on a disk from its nth call on, once after is not negative.
type trouble struct {
	mu        sync.Mutex
	operation string
	after     int
	err       error
	met       int // calls that failed
}

func (f *trouble) files() disk.Files {
	return faulty.Files{Files: disk.OS, Fail: func(operation, _ string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err == nil || operation != f.operation {
			return nil
		}
		if f.after > 0 {
			f.after--
			return nil
		}
		f.met++
		return f.err
	}}
}

func (f *trouble) set(operation string, after int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.operation, f.after, f.err = operation, after, err
}

// TestAFileThatCannotBeReadStays: whatever fails while a cache is opened, and wherever in the file, is an error that
// says so; the file is as it was, and holds everything once it can be read.
func TestAFileThatCannotBeReadStays(t *testing.T) {
	c := newCache(t, 1<<20)
	want := map[string]string{}
	for i := range 50 {
		name := fmt.Sprint("r", i)
		c.Commit(put(t, c, "t", "1", 40, name))
		want[name] = "1"
	}
	put(t, c, "t", "2", 40, "r1") // never answered: what opening cuts off, or may
	c.Close()
	before, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{"edit", "fstat", "read", "truncate"} {
		for _, fault := range faulty.Errors {
			for _, after := range []int{0, 5, 100} {
				f := &trouble{}
				f.set(operation, after, fault)
				again, err := Open(f.files(), c.path, c.limit, c.log)
				if err == nil {
					again.Close()
				}
				if (err == nil) != (f.met == 0) || err != nil && !strings.Contains(err.Error(), fault.Error()) {
					t.Errorf("%s, call %d: %v, failed %d times with %v", operation, after, err, f.met, fault)
				}
				if now, _ := os.ReadFile(c.path); f.met > 0 && !bytes.Equal(now, before) {
					t.Fatalf("%s fails at call %d: %d of %d bytes are left", operation, after, len(now), len(before))
				}
				if err := os.WriteFile(c.path, before, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	reopened(t, c).check(t, "t", want)
}

// TestFaultsOfWriting: whatever fails, at random, the cache that is found afterwards is one of those that were committed, whole, or
// none; the one in use holds the same while it exists, and the log says when it was given up.
func TestFaultsOfWriting(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 7))
		var log bytes.Buffer
		broken := true
		files := faulty.Files{Files: disk.OS, Fail: func(string, string) error {
			if broken && random.IntN(12) == 0 {
				return faulty.Errors[random.IntN(len(faulty.Errors))]
			}
			return nil
		}}
		path := filepath.Join(t.TempDir(), "xds.cache")
		c, err := Create(files, path, aNode, 16<<20, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			if half, err := Open(disk.OS, path, 1<<20, slog.New(slog.DiscardHandler)); err == nil {
				half.Close()
				t.Fatalf("seed %d: a cache that was not made is there", seed)
			}
			continue
		}
		valid := []map[string]string{{}} // what the file may hold: the last commit that was made, or tried
		for i := range 40 {
			name, version := fmt.Sprint("r", random.IntN(4)), fmt.Sprint(i)
			next := map[string]string{name: version}
			for k, v := range valid[len(valid)-1] {
				if k != name {
					next[k] = v
				}
			}
			c.Commit(put(t, c, "t", version, 400<<10, name))
			if c.gone {
				break
			}
			valid = []map[string]string{next}
			if got, _ := c.Versions("t"); fmt.Sprint(got) != fmt.Sprint(next) {
				t.Fatalf("seed %d: kept are %v, want %v", seed, got, next)
			}
		}
		gone := c.gone
		c.Close()
		broken = false
		if gone != strings.Contains(log.String(), "is given up") {
			t.Errorf("seed %d: given up: %t; the log says %q", seed, gone, log.String())
		}
		again, err := Open(files, path, c.limit, c.log)
		switch {
		case err != nil && !gone:
			t.Fatalf("seed %d: %v", seed, err)
		case err == nil && !gone:
			again.check(t, "t", valid[0])
			again.Close()
		case err == nil: // it could not be removed
			if got, _ := again.Versions("t"); fmt.Sprint(got) != fmt.Sprint(valid[0]) {
				t.Errorf("seed %d: what was given up holds %v, want %v", seed, got, valid[0])
			}
			again.Close()
		}
	}
}

// TestACacheThatCannotBeWrittenAnewGoesOn with all that it holds, while it is not over its limit; written anew it is once that can be.
func TestACacheThatCannotBeWrittenAnewGoesOn(t *testing.T) {
	for _, operation := range []string{"make", "sync", "rename"} {
		for _, fault := range faulty.Errors {
			f := &trouble{}
			var log bytes.Buffer
			c, err := Create(f.files(), filepath.Join(t.TempDir(), "xds.cache"), aNode, 64<<20, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			c.Commit(put(t, c, "stays", "1", 10, "x"))
			f.set(operation, 0, fault)
			big := 1 << 20
			for i := range 7 {
				c.Commit(put(t, c, "t", fmt.Sprint(i), big, "a"))
			}
			c.check(t, "t", map[string]string{"a": "6"})
			c.check(t, "stays", map[string]string{"x": "1"})
			if f.met != 1 || strings.Count(log.String(), "cannot be written anew") != 1 {
				t.Errorf("%s: %v %d times, and the log says %q", operation, fault, f.met, log.String())
			}
			f.set("", 0, nil)
			for i := range 5 {
				c.Commit(put(t, c, "t", fmt.Sprint("more", i), big, "a"))
			}
			if c.end > slack+4<<20 {
				t.Errorf("%s: it has %d bytes still", operation, c.end)
			}
			again := reopened(t, c)
			again.check(t, "t", map[string]string{"a": "more4"})
			again.check(t, "stays", map[string]string{"x": "1"})
			again.Close()
		}
	}
}
