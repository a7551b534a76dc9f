package file

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/disk/faulty"
	"fairway/internal/disk/watch"
)

// fail has files fail, by a function that a test may change.
type fail struct {
	mu  sync.Mutex
	how func(operation, path string) error
}

func (f *fail) set(how func(operation, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.how = how
}

func (f *fail) files() disk.Files {
	return faulty.Files{Files: disk.OS, Fail: func(operation, path string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.how == nil {
			return nil
		}
		return f.how(operation, path)
	}}
}

// stepped returns a runner that a test drives step by step, with a clock that does not move in between.
func stepped(b *bed, change ...func(*Options)) *runner {
	b.Helper()
	d, err := config.NewDecoder(config.Options{})
	b.must(err)
	o := Options{Dirs: []string{b.dir}, Decoder: d, Quiet: quiet, Clock: Clock{Now: b.clock.Now, After: b.clock.After}}
	for _, c := range change {
		c(&o)
	}
	r := newRunner(o.withDefaults(), deaf{}, b.sink())
	r.start()
	b.drain()
	return r
}

// drain takes what has been handed over.
func (b *bed) drain() {
	for len(b.batches) > 0 {
		b.next()
	}
}

// pass lets time go on by steps of d, for as long as total, everything looked at each time.
func (b *bed) pass(r *runner, d, total time.Duration) {
	for ; total > 0; total -= d {
		b.clock.mu.Lock()
		b.clock.now = b.clock.now.Add(d)
		b.clock.mu.Unlock()
		r.timeUp()
		r.scan(never)
		r.step()
		for len(r.lane.pending) > 0 {
			r.finished(<-r.lane.done)
			r.step()
		}
		b.drain()
	}
}

const settled = quiet * (settleFactor + lastRetry + 10)

// TestFaults: whatever fails, in whatever order, no existing object is removed; and once nothing fails, the objects in
// force are those that a new source reads.
func TestFaults(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 7))
		b := newBed(t)
		for i := range 4 {
			b.mkdir(fmt.Sprintf("d%d/e", i))
		}
		name := func(i int) string { return fmt.Sprintf("d%d/e/%d.yaml", i%4, i) }
		for i := range 12 {
			b.write(name(i), entryText(fmt.Sprintf("s%d", i), fmt.Sprintf("s%d.com", i)))
		}
		b.must(os.Symlink("../d1", b.path("d0/link")))
		var broken fail
		r := stepped(b, func(o *Options) { o.Files = broken.files() })
		before := slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
			for k := range b.state {
				yield(k.Name, true)
			}
		})))
		broken.set(func(string, string) error {
			if random.IntN(3) == 0 {
				return faulty.Errors[random.IntN(len(faulty.Errors))]
			}
			return nil
		})
		removed := map[string]bool{}
		for range 8 {
			i := random.IntN(12)
			switch random.IntN(3) {
			case 0:
				b.must(os.RemoveAll(b.path(name(i))))
				removed[fmt.Sprintf("s%d", i)] = true
			case 1:
				b.write(name(i), entryText(fmt.Sprintf("s%d", i), fmt.Sprintf("other%d.com", random.IntN(100))))
			}
			r.take([]watch.Event{{What: watch.Lost}})
			b.pass(r, quiet, 3*quiet)
			for _, n := range before {
				if b.state[key(n)] == nil && !removed[n] {
					t.Fatalf("seed %d: %s is gone, and its file is there", seed, n)
				}
			}
		}
		broken.set(nil)
		r.take([]watch.Event{{What: watch.Lost}})
		b.pass(r, quiet, settled)
		fresh := &bed{T: t, dir: b.dir, clock: b.clock, batches: b.batches, state: map[config.Key]*config.Object{}, said: b.said}
		stepped(fresh)
		if got, want := b.hosts(), fresh.hosts(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: in force %v\nwant %v", seed, got, want)
		}
		if len(r.troubles) > 0 || r.reportedTroubles != 0 {
			t.Fatalf("seed %d: still unreadable: %v", seed, r.troubles)
		}
	}
}

func (b *bed) hosts() []string {
	var out []string
	for k, o := range b.state {
		out = append(out, fmt.Sprint(k, o.Ref.File, o.Hash))
	}
	slices.Sort(out)
	return out
}

// TestRootThatGoes: the whole tree is away for a moment, as when it is unmounted or deployed anew. Its objects stay, a
// problem says so, and it is read again.
func TestRootThatGoes(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"), "b.yaml", entryText("b", "b.com"))
	unreadable := -1
	r := stepped(b, func(o *Options) { o.Unreadable = func(n int) { unreadable = n } })
	away := b.dir + ".away"
	b.must(os.Rename(b.dir, away))
	r.take([]watch.Event{{Dir: filepath.Dir(b.dir), Name: filepath.Base(b.dir), What: watch.Gone, IsDir: true}})
	b.pass(r, quiet, 30*quiet)
	b.inForce("a a.yaml:1", "b b.yaml:1")
	if list := b.said[b.dir]; len(list) != 1 || list[0].Code != "Unreadable" || unreadable != 1 {
		t.Errorf("said of the folder: %v; unreadable %d", list, unreadable)
	}
	b.mkdir("") // the bare place where it was mounted
	b.pass(r, quiet, settled)
	b.inForce("a a.yaml:1", "b b.yaml:1")
	b.must(os.Remove(b.dir))
	b.must(os.Rename(away, b.dir))
	b.pass(r, quiet, settled)
	b.inForce("a a.yaml:1", "b b.yaml:1")
	if list := b.said[b.dir]; len(list) != 0 || unreadable != 0 {
		t.Errorf("still said: %v; unreadable %d", list, unreadable)
	}
	b.must(os.Rename(b.dir, away))
	b.mkdir("")
	b.write("b.yaml", entryText("b", "other.com"))
	r.checkRoots() // there was no event
	b.pass(r, quiet, 10*quiet)
	b.inForce("a a.yaml:1", "b b.yaml:1") // more may come
	b.pass(r, quiet, settled)
	b.inForce("b b.yaml:1")
}

// TestFolderThatCannotBeRead: such a folder keeps its objects; those that were removed meanwhile go once it can be read.
func TestFolderThatCannotBeRead(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.mkdir("sub")
	b.write("sub/b.yaml", entryText("b", "b.com"))
	b.write("sub/c.yaml", entryText("c", "c.com"))
	var broken fail
	r := stepped(b, func(o *Options) { o.Files = broken.files() })
	sub := b.path("sub")
	broken.set(func(operation, path string) error {
		if operation == "readdir" && path == sub || strings.HasPrefix(path, sub+"/") {
			return syscall.EACCES
		}
		return nil
	})
	b.must(os.Remove(b.path("sub/c.yaml")))
	b.place("a.yaml", entryText("a", "other.com"))
	r.take([]watch.Event{{What: watch.Lost}})
	b.pass(r, quiet, settled)
	b.inForce("a a.yaml:1", "b sub/b.yaml:1", "c sub/c.yaml:1")
	if list := b.said[sub]; len(list) != 1 || !strings.Contains(list[0].Message, "permission denied") || list[0].Fix == "" {
		t.Errorf("said of the folder: %v", list)
	}
	broken.set(nil)
	b.pass(r, quiet, settled)
	b.inForce("a a.yaml:1", "b sub/b.yaml:1")
	if list := b.said[sub]; len(list) != 0 {
		t.Errorf("still said: %v", list)
	}
}

// TestReadAgain: a file that could not be read for lack of descriptors is read within seconds, though it does not change
// again.
func TestReadAgain(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	var broken fail
	r := stepped(b, func(o *Options) { o.Files = broken.files() })
	broken.set(func(operation, path string) error {
		if operation == "open" {
			return syscall.EMFILE
		}
		return nil
	})
	b.place("a.yaml", entryText("a", "other.com"))
	r.take([]watch.Event{{Dir: b.dir, Name: "a.yaml", What: watch.Placed}})
	first := b.state[key("a")]
	b.pass(r, quiet, 100*quiet)
	if b.state[key("a")] != first || b.problem("a.yaml").Fix != "raise the limit of open files" {
		t.Errorf("%v", b.said)
	}
	broken.set(nil)
	b.pass(r, quiet, lastRetry*quiet)
	if b.state[key("a")] == first || len(b.said[b.path("a.yaml")]) != 0 {
		t.Errorf("not read again: %v", b.said)
	}
}

// TestManyNames: twenty folders, each with two links to the next, are a million paths and twenty folders.
func TestManyNames(t *testing.T) {
	b := newBed(t)
	const levels = 20
	for i := range levels {
		b.mkdir(fmt.Sprintf("../deep/%d", i))
		b.write(fmt.Sprintf("../deep/%d/x.yaml", i), entryText(fmt.Sprintf("s%d", i), "a.com"))
		if i > 0 {
			for _, link := range []string{"a", "b"} {
				b.must(os.Symlink(fmt.Sprintf("../%d", i), b.path(fmt.Sprintf("../deep/%d/%s", i-1, link))))
			}
		}
	}
	b.must(os.Symlink("../deep/0", b.path("zero")))
	start := time.Now()
	r := stepped(b)
	if len(b.state) != levels {
		t.Fatalf("%d objects of %d", len(b.state), levels)
	}
	if n := len(r.owners); n != levels+1 {
		t.Errorf("%d folders are read", n)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	// If one name of a folder goes, its objects stay in force under another.
	b.must(os.Remove(b.path("../deep/0/a")))
	r.take([]watch.Event{{Dir: b.path("zero"), Name: "a", What: watch.Gone}})
	r.take([]watch.Event{{What: watch.Lost}})
	r.scan(never)
	r.step()
	for range 6 {
		b.pass(r, quiet, quiet)
		if len(b.state) != levels {
			t.Fatalf("%d objects of %d", len(b.state), levels)
		}
	}
}

// TestTooManyFolders: past the bound nothing is read, and nothing of it goes.
func TestTooManyFolders(t *testing.T) {
	w := walk{disk: disk.OS, watch: func(string) error { return nil }, owners: map[disk.ID]string{}, root: t.TempDir()}
	for i := range uint64(maxFolders - 1) {
		w.owners[disk.ID{Inode: ^i}] = "elsewhere"
	}
	if err := os.MkdirAll(filepath.Join(w.root, "one/two"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := w.look(); !errors.Is(got.unread[filepath.Join(w.root, "one")], errFolders) ||
		!got.hides(filepath.Join(w.root, "one/two/x.yaml")) || got.hides(filepath.Join(w.root, "x.yaml")) {
		t.Errorf("%v", got.unread)
	}
}

// TestWhatIsNoFile is refused without being waited for; of a file that is too large nothing is read.
func TestWhatIsNoFile(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.must(unix.Mkfifo(b.path("pipe.yaml"), 0o644))
	b.must(os.WriteFile(b.path("large.yaml"), nil, 0o644))
	b.must(os.Truncate(b.path("large.yaml"), 1<<30))
	b.must(os.WriteFile(b.path("most.yaml"), nil, 0o644))
	b.must(os.Truncate(b.path("most.yaml"), disk.MaxFile+1))
	b.must(os.Symlink("/dev/zero", b.path("zero.yaml")))
	got := spend(func() { stepped(b) })
	b.inForce("a a.yaml:1")
	for name, want := range map[string]string{
		"pipe.yaml":  "not a regular file",
		"zero.yaml":  "not a regular file",
		"large.yaml": "too large",
		"most.yaml":  "too large",
	} {
		if p := b.problem(name); !strings.Contains(p.Message, want) || p.Fix == "" {
			t.Errorf("%s: %v", name, p)
		}
	}
	if got > 64<<20 {
		t.Errorf("%d bytes of memory for it", got)
	}
}

// TestLargeFileIsBeside: while a large file is read, small ones are in force; a large file that moves is never gone.
func TestLargeFileIsBeside(t *testing.T) {
	many := func(from int) string {
		var s strings.Builder
		for i := range 400 {
			s.WriteString(entryText(fmt.Sprintf("l%d", from+i), "l.com") + "---\n")
		}
		return s.String()
	}
	b := newBed(t, "a.yaml", entryText("a", "a.com"), "large.yaml", many(0))
	var broken fail
	r := stepped(b, func(o *Options) { o.Files = broken.files() })
	held, release := make(chan struct{}, 10), make(chan struct{})
	broken.set(func(operation, path string) error {
		if operation == "open" && strings.Contains(path, "large") {
			held <- struct{}{}
			broken.mu.Unlock()
			<-release
			broken.mu.Lock()
		}
		return nil
	})
	b.must(os.Rename(b.path("large.yaml"), b.path("large2.yaml")))
	b.place("a.yaml", entryText("a", "other.com"))
	r.take(
		[]watch.Event{
			{Dir: b.dir, Name: "large.yaml", What: watch.Renamed, To: "large2.yaml"},
			{Dir: b.dir, Name: "large2.yaml", What: watch.Placed},
			{Dir: b.dir, Name: "a.yaml", What: watch.Placed},
		},
	)
	r.scan(never)
	r.step()
	<-held
	if batch := b.next(); len(batch.Set) != 1 || batch.Set[0].Name != "a" || len(batch.Delete) != 0 {
		t.Fatalf("set %d, delete %d", len(batch.Set), len(batch.Delete))
	}
	b.must(os.Remove(b.path("a.yaml")))
	r.take([]watch.Event{{Dir: b.dir, Name: "a.yaml", What: watch.Gone}})
	for range 5 { // a small file's removal waits a little, the large one's until it is known what moved
		b.clock.now = b.clock.now.Add(quiet)
		r.timeUp()
		r.step()
	}
	b.drain()
	if len(b.state) != 400 || b.state[key("a")] != nil {
		t.Fatalf("%d objects", len(b.state))
	}
	close(release)
	b.pass(r, quiet, 10*quiet)
	if len(b.state) != 400 || filepath.Base(b.state[key("l0")].Ref.File) != "large2.yaml" {
		t.Fatalf("%d objects, %v", len(b.state), b.state[key("l0")])
	}
}

// TestProblemsOfAFile: a hundred problems are reported.
func TestProblemsOfAFile(t *testing.T) {
	var s strings.Builder
	for range 300 {
		s.WriteString(entryText("same", "a.com") + "---\n")
	}
	b := newBed(t, "many.yaml", s.String())
	stepped(b)
	list := b.said[b.path("many.yaml")]
	if len(list) != maxProblems+1 || !strings.Contains(list[maxProblems].Message, "and 199 more problems") {
		t.Errorf("%d problems, the last %v", len(list), list[len(list)-1])
	}
}

// TestTooManyDocuments: the file keeps what it held.
func TestTooManyDocuments(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	r := stepped(b)
	b.place("a.yaml", strings.Repeat("a: b\n---\n", config.MaxDocuments+10))
	r.take([]watch.Event{{Dir: b.dir, Name: "a.yaml", What: watch.Placed}})
	b.pass(r, quiet, quiet)
	b.inForce("a a.yaml:1")
	if p := b.problem("a.yaml"); !strings.Contains(p.Message, "more than 100000 documents") {
		t.Error(p)
	}
}
