package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const quiet = 50 * time.Millisecond

// bed is a source that reads a folder, with a clock that only a test moves.
type bed struct {
	*testing.T
	dir     string
	clock   *clock
	batches chan news
	state   map[config.Key]*config.Object
	said    map[string][]mesh.Problem
}

// newBed makes a folder of files, each "path" followed by its text.
func newBed(t *testing.T, files ...string) *bed {
	b := &bed{
		T:       t,
		dir:     filepath.Join(t.TempDir(), "rules"),
		clock:   newClock(),
		batches: make(chan news, 100),
		state:   map[config.Key]*config.Object{},
		said:    map[string][]mesh.Problem{},
	}
	b.mkdir("")
	for i := 0; i < len(files); i += 2 {
		b.write(files[i], files[i+1])
	}
	return b
}

// news is the content of a batch: the changed objects, and the problems of files.
type news struct {
	Set      []*config.Object
	Delete   []config.Key
	Problems map[string][]mesh.Problem
	Synced   bool
}

// Apply implements source.Settled.
func (b *bed) Apply(batch source.Batch) {
	n := news{Set: batch.Set.Objects, Delete: batch.Gone.Objects, Problems: map[string][]mesh.Problem{}, Synced: batch.Synced}
	for at, list := range batch.Problems {
		n.Problems[at.Name] = list
	}
	b.batches <- n
}

// sink is what a source at work hands to.
func (b *bed) sink() source.Sink {
	b.Helper()
	sink, err := shards.New(b, nil).Join("files", 0)
	b.must(err)
	return sink
}

func (b *bed) start(change ...func(*Options)) news {
	b.Helper()
	d, err := config.NewDecoder(config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Dirs: []string{b.dir}, Decoder: d, Quiet: quiet, Clock: Clock{Now: b.clock.Now, After: b.clock.After}}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	sink := b.sink()
	go func() { done <- s.Run(ctx, sink) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Run: %v", err)
		}
	})
	batch := b.next()
	if !batch.Synced {
		b.Error("the first batch is not synced")
	}
	return batch
}

// next waits for a batch and applies it to the objects in force.
func (b *bed) next() news {
	b.Helper()
	select {
	case batch := <-b.batches:
		for _, o := range batch.Set {
			b.state[o.Key] = o
		}
		for _, k := range batch.Delete {
			delete(b.state, k)
		}
		for f, list := range batch.Problems {
			b.said[f] = list
		}
		return batch
	case <-time.After(2 * time.Minute):
		b.Fatal("no batch came")
		return news{}
	}
}

// none checks that nothing was handed over. It is only certain where the source is known to have seen all that was done: after asked.
func (b *bed) none() {
	b.Helper()
	select {
	case batch := <-b.batches:
		b.Fatalf("a batch came: set %v, delete %v, problems %v", batch.Set, batch.Delete, batch.Problems)
	default:
	}
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) mkdir(name string) {
	b.Helper()
	b.must(os.MkdirAll(b.path(name), 0o755))
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// write is a write in place.
func (b *bed) write(name, text string) {
	b.Helper()
	b.must(os.WriteFile(b.path(name), []byte(text), 0o644))
}

// place is a write elsewhere and a rename into place.
func (b *bed) place(name, text string) {
	b.Helper()
	tmp := filepath.Join(filepath.Dir(b.dir), "tmp")
	b.must(os.WriteFile(tmp, []byte(text), 0o644))
	b.must(os.Rename(tmp, b.path(name)))
}

// keys lists the objects in force, with the line of each in its file.
func (b *bed) keys() []string {
	var out []string
	for k, o := range b.state {
		rel, _ := filepath.Rel(b.dir, o.Ref.File)
		out = append(out, fmt.Sprintf("%s %s:%d", k.Name, rel, o.Ref.Line))
	}
	slices.Sort(out)
	return out
}

func (b *bed) inForce(want ...string) {
	b.Helper()
	if got := b.keys(); !slices.Equal(got, want) {
		b.Errorf("in force: %v\n    want: %v", got, want)
	}
}

// problem returns the one thing said of a file.
func (b *bed) problem(name string) mesh.Problem {
	b.Helper()
	if list := b.said[b.path(name)]; len(list) == 1 {
		return list[0]
	}
	b.Fatalf("said of %s: %v", name, b.said[b.path(name)])
	return mesh.Problem{}
}

// host is the host of a ServiceEntry in force.
func entryText(name, host string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata:
  name: %s
spec:
  hosts: [%s]
  ports:
  - number: 80
    name: http
    protocol: HTTP
  resolution: DNS
`, name, host)
}

// clock moves only when a test fires a timer.
type clock struct {
	mu     sync.Mutex
	cond   *sync.Cond
	now    time.Time
	asked  time.Duration // of the latest timer
	timer  chan time.Time
	runs   time.Duration // timers of it run out by themselves
	serial int
}

func newClock() *clock {
	c := &clock{now: time.Now().Add(time.Hour)} // every file at the start is old
	c.cond = sync.NewCond(&c.mu)
	return c
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.timer = d, make(chan time.Time, 1)
	if d == 0 || d == c.runs {
		c.expire(d)
	}
	c.serial++
	c.cond.Broadcast()
	return c.timer
}

// fire lets the latest timer run out, once it is one of d: the source has then seen what led to it.
func (c *clock) fire(t *testing.T, d time.Duration) {
	t.Helper()
	c.await(t, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(d)
}

// run lets every timer of d run out from here on, for what the source may see in several steps: what it sees later puts
// off what it saw before.
func (c *clock) run(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = d
	if c.asked == d {
		c.expire(d)
	}
}

// expire ends the latest timer; c is locked.
func (c *clock) expire(d time.Duration) {
	c.asked = 0 // each wait is waited for once
	c.now = c.now.Add(d)
	c.timer <- c.now
}

// await waits until the source waits for d.
func (c *clock) await(t *testing.T, d time.Duration) {
	t.Helper()
	stop := time.AfterFunc(20*time.Second, func() { // a failing test must end
		c.mu.Lock()
		defer c.mu.Unlock()
		c.serial = -1
		c.cond.Broadcast()
	})
	defer stop.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.asked != d {
		if c.serial < 0 {
			t.Fatalf("the source never waited for %v", d)
		}
		c.cond.Wait()
	}
	c.asked = 0
}
