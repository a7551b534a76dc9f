package watch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKernelFiles: files that do not report their size are compared by their content.
func TestKernelFiles(t *testing.T) {
	const file = "/proc/self/comm" // the process's name, which is 15 bytes at most
	before, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err)
	}
	f := Follow(Options{Files: func() []string { return []string{file} }, Quiet: time.Millisecond, Every: time.Millisecond})
	defer f.Stop()
	for _, name := range []string{"renamed", strings.TrimSpace(string(before))} {
		if err := os.WriteFile(file, []byte(name), 0); err != nil {
			t.Skip(err)
		}
		awaitChange(t, f, name)
	}
}

// TestWhatHappened checks the events that inotify reports and portable interfaces do not.
func TestWhatHappened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(dir, 0o700))
	w := New()
	defer w.Close()
	must(w.Add(dir))
	must(w.Add(dir)) // changes nothing
	for _, one := range []struct {
		what string
		do   func() error
		want []Event
	}{
		{"a file that is written", func() error { return os.WriteFile(in("a"), []byte("text"), 0o600) },
			[]Event{{Name: "a", What: Touched}, {Name: "a", What: Written}}},
		{"a rename", func() error { return os.Rename(in("a"), in("b")) },
			[]Event{{Name: "a", What: Renamed, To: "b"}, {Name: "b", What: Placed}}},
		{"a link", func() error { return os.Symlink("b", in("link")) }, []Event{{Name: "link", What: Placed}}},
		{"a folder", func() error { return os.Mkdir(in("folder"), 0o700) }, []Event{{Name: "folder", What: Touched, IsDir: true}}},
		{"a rename to elsewhere", func() error { return os.Rename(in("b"), dir+"-b") }, []Event{{Name: "b", What: Gone}}},
		{"a rename from elsewhere", func() error { return os.Rename(dir+"-b", in("c")) }, []Event{{Name: "c", What: Placed}}},
		{"a removal", func() error { return os.Remove(in("c")) }, []Event{{Name: "c", What: Gone}}},
		{"the end", func() error { return os.RemoveAll(dir) }, []Event{
			{Name: "link", What: Gone}, {Name: "folder", What: Gone, IsDir: true}, {What: Ended},
		}},
	} {
		must(one.do())
		var got []Event
		for late := time.After(20 * time.Second); len(got) < len(one.want); {
			select {
			case list := <-w.Events():
				got = slices.CompactFunc(append(got, list...), func(a, b Event) bool { return a == b && a.What == Touched })
			case <-late:
				t.Fatalf("%s: got only %+v", one.what, got)
			}
		}
		for i := range got {
			if got[i].Dir != dir {
				t.Errorf("%s: in %s", one.what, got[i].Dir)
			}
			got[i].Dir = ""
		}
		if one.what == "a rename" && got[0].What == Gone {
			got[0] = one.want[0] // the kernel tells both halves one after the other: they may come in two lists
		}
		if !slices.Equal(got, one.want) && one.what != "the end" { // in any order
			t.Errorf("%s: got  %+v\nwant %+v", one.what, got, one.want)
		}
	}
	must(os.Mkdir(dir, 0o700))
	must(w.Add(dir)) // another folder of that name
	w.Drop(filepath.Dir(dir))
	w.mu.Lock() // the kernel reports the dropped watch too, and read records it
	defer w.mu.Unlock()
	if len(w.byID) != 0 || len(w.byDir) != 0 {
		t.Errorf("still watched: %v, %v", w.byID, w.byDir)
	}
}

// TestNoInstance: without an inotify instance Add returns the reason, and no event comes.
func TestNoInstance(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 3 // all are in use
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skip(err)
	}
	w := New()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(t.TempDir()); err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("Add = %v", err)
	}
	w.Drop("/")
	w.Close()
	if _, open := <-w.Events(); open {
		t.Error("something has happened")
	}
}
