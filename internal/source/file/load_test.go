package file

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk/watch"
	"fairway/internal/source"
)

// deaf is a watcher that hears nothing but what a test says.
type deaf struct {
	list chan []watch.Event
}

func (d deaf) Add(string) error             { return nil }
func (d deaf) Drop(string)                  {}
func (d deaf) Events() <-chan []watch.Event { return d.list }

// TestDroppedEvents: after an overflow of the kernel's queue all files are looked through, and what changed waits for quiet.
func TestDroppedEvents(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"), "b.yaml", entryText("b", "b.com"), "c.yaml", entryText("c", "c.com"))
	d, err := config.NewDecoder(config.Options{})
	b.must(err)
	o := Options{Dirs: []string{b.dir}, Decoder: d, Quiet: quiet, Clock: Clock{Now: b.clock.Now, After: b.clock.After}}.withDefaults()
	r := newRunner(o, deaf{}, b.sink())
	r.start()
	b.next()
	b.write("a.yaml", entryText("a", "a-longer-name.com"))
	b.must(os.Remove(b.path("b.yaml")))
	b.write("d.yaml", entryText("d", "d.com"))
	r.take([]watch.Event{{What: watch.Lost}})
	r.scan(never)
	r.step()
	b.none()
	b.clock.now = b.clock.now.Add(quiet)
	r.timeUp()
	r.step()
	if batch := b.next(); len(batch.Set) != 2 || len(batch.Delete) != 1 {
		t.Errorf("set %v, delete %v", batch.Set, batch.Delete)
	}
	b.inForce("a a.yaml:1", "c c.yaml:1", "d d.yaml:1")
}

// unwatched is a watcher of a system that watches nothing.
type unwatched struct{ deaf }

func (unwatched) Add(string) error { return syscall.EMFILE }

// TestNothingCanBeWatched: that is reported once, and changes are found by looking from time to time.
func TestNothingCanBeWatched(t *testing.T) {
	b := newBed(t, "a.yaml", entryText("a", "a.com"))
	b.mkdir("sub")
	d, err := config.NewDecoder(config.Options{})
	b.must(err)
	var log bytes.Buffer
	o := Options{
		Dirs: []string{b.dir}, Decoder: d, Quiet: quiet, Clock: Clock{Now: b.clock.Now, After: b.clock.After},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}.withDefaults()
	r := newRunner(o, unwatched{}, b.sink())
	r.start()
	b.next()
	b.write("sub/b.yaml", entryText("b", "b.com"))
	for _, want := range []time.Duration{quiet * blindFactor, quiet} {
		wait, is := r.nextWait()
		if !is || wait != want {
			t.Errorf("it waits %s, want %s", wait, want)
		}
		b.none()
		b.clock.now = b.clock.now.Add(wait)
		r.timeUp()
		r.scan(never)
		r.step()
	}
	b.next()
	b.inForce("a a.yaml:1", "b sub/b.yaml:1")
	if n := strings.Count(log.String(), "cannot watch for changes"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, &log)
	}
}

// TestTenThousandFiles: that many files are one batch at the start, and one changed file is one object.
func TestTenThousandFiles(t *testing.T) {
	b := newBed(t)
	writeMany(t, b.dir, 10_000)
	if batch := b.start(); len(batch.Set) != 10_000 {
		t.Fatalf("%d objects", len(batch.Set))
	}
	b.place("d7/7.yaml", entryText("svc-7", "other.com"))
	if batch := b.next(); len(batch.Set) != 1 || len(batch.Problems) != 1 {
		t.Errorf("%d objects, %d files", len(batch.Set), len(batch.Problems))
	}
}

func writeMany(tb testing.TB, dir string, n int) {
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("d%d", i%100))
		if i < 100 {
			if err := os.Mkdir(sub, 0o755); err != nil {
				tb.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("%d.yaml", i)),
			[]byte(entryText(fmt.Sprintf("svc-%d", i), fmt.Sprintf("svc-%d.com", i))), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

type sinkFunc func(source.Update)

func (f sinkFunc) Apply(u source.Update) { f(u) }

// BenchmarkStart reads 10,000 files of one object each, with a decoder that has seen nothing yet.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	writeMany(b, dir, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		d, err := config.NewDecoder(config.Options{})
		if err != nil {
			b.Fatal(err)
		}
		o := Options{
			Dirs:    []string{dir},
			Decoder: d,
			Clock:   Clock{Now: func() time.Time { return time.Now().Add(time.Hour) }},
		}.withDefaults()
		got := 0
		newRunner(o, deaf{}, sinkFunc(func(u source.Update) { got = len(u.Shards[0].Rows.Objects) })).start()
		if got != 10_000 {
			b.Fatal(got)
		}
	}
}

// BenchmarkRename is from a rename into a tree of 10,000 files to Apply.
func BenchmarkRename(b *testing.B) {
	dir := b.TempDir()
	writeMany(b, dir, 10_000)
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Dirs: []string{dir}, Decoder: d, Clock: Clock{Now: func() time.Time { return time.Now().Add(time.Hour) }}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, applied := make(chan error), make(chan struct{}, 100)
	go func() { done <- s.Run(ctx, sinkFunc(func(source.Update) { applied <- struct{}{} })) }()
	defer func() { cancel(); <-done }()
	<-applied
	tmp := filepath.Join(b.TempDir(), "x")
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		if err := os.WriteFile(tmp, []byte(entryText("svc-7", fmt.Sprintf("h%d.com", i))), 0o644); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := os.Rename(tmp, filepath.Join(dir, "d7", "7.yaml")); err != nil {
			b.Fatal(err)
		}
		<-applied
	}
}

// FuzzDocuments: any file is split and decoded without a panic, every document is part of the file at the line it claims,
// and an edit keeps or replaces objects, never both.
func FuzzDocuments(f *testing.F) {
	f.Add(entryText("a", "a.com")+"---\n"+entryText("b", "b.com"), entryText("a", "x.com"))
	f.Add("---\n# c\n--- {a: b}\n...\n%YAML 1.1\n---\n- x\n", "a: [\n")
	f.Add(`{"kind":"ServiceEntry"}`, "kind: List\nitems: []\n")
	f.Add("kind: List\nitems:\n- kind: Gateway\n  metadata: {name: g}\n-\n- {kind: Sidecar}\n",
		`{"kind": "List", "items": [{"kind": "Gateway"}, {}]}`)
	bomb := "a: &a [x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	f.Add(bomb, "x: &x "+strings.Repeat("s", 5000)+"\ny: ["+strings.Repeat("*x,", 5000)+"]\n")
	f.Add(strings.Repeat("[", 5000), strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000))
	f.Add("kind: List\nitems:\r- a: b\r- a: c\r- d\n", strings.Repeat("a\n---\n", 1000))
	f.Add("a: &a [*a]\n", "\xef\xbb\xbfkind: Gateway\nmetadata: {name: g}\napiVersion: networking.istio.io/v1\nspec: {}\n")
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		f.Fatal(err)
	}
	read := loader{decoder: d, log: f.Logf}
	f.Fuzz(func(t *testing.T, before, after string) {
		if got := spend(func() { documents(t, read, before, after) }); got > uint64(96<<20+20_000*(len(before)+len(after))) {
			t.Errorf("%d bytes of text take %d of memory", len(before)+len(after), got)
		}
	})
}

// spend is what a call takes of memory, garbage included, in bytes.
func spend(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func documents(t *testing.T, read loader, before, after string) {
	l := newLedger()
	for _, text := range []string{before, after, before} {
		var results []entry
		for _, doc := range config.Split("f.yaml", []byte(text)) {
			results = append(results, read.decode("", doc, byText(l.entries("f.yaml"), 1)))
		}
		l.replace("f.yaml", stamp{}, keepGood(l.entries("f.yaml"), results))
		u, _ := l.flush()
		if len(u.Shards) != 1 || !u.Shards[0].Whole {
			t.Fatalf("%d shards for one file", len(u.Shards))
		}
		for _, o := range u.Shards[0].Rows.Objects {
			if o.Ref.Line < 1 {
				t.Errorf("%v at line %d", o.Key, o.Ref.Line)
			}
		}
		if n := len(u.Problems["f.yaml"]); n > maxProblems+1 {
			t.Errorf("%d problems", n)
		}
	}
}
