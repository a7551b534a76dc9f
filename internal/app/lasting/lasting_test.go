package lasting_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/app/lasting"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kept"
	"fairway/internal/source/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// played is a source with rows that a test sets.
type played struct {
	name  string
	sinks chan source.Sink // has one once it runs
	fails error
}

func newPlayed(name string) *played { return &played{name: name, sinks: make(chan source.Sink, 1)} }

func (p *played) Name() string { return p.name }

func (p *played) Run(ctx context.Context, sink source.Sink) error {
	p.sinks <- sink
	if p.fails != nil {
		return p.fails
	}
	<-ctx.Done()
	return nil
}

// says has it hand something in.
func (p *played) says(u source.Update) {
	sink := <-p.sinks
	sink.Apply(u)
	p.sinks <- sink
}

func (p *played) spec() lasting.Spec {
	return lasting.Spec{Name: p.name, Wait: time.Hour, TTL: time.Hour, Make: func() (source.Source, func(), error) { return p, nil, nil }}
}

// next receives the rows of the sources: those that count now.
type next struct {
	mu    sync.Mutex
	holds map[string]bool
}

func (n *next) Apply(b source.Batch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range b.Set.Services {
		n.holds[string(s.Key.Host)] = true
	}
	for _, o := range b.Set.Objects {
		n.holds[o.Key.String()] = true
	}
	for _, k := range b.Gone.Services {
		delete(n.holds, string(k.Host))
	}
	for _, k := range b.Gone.Objects {
		delete(n.holds, k.String())
	}
}

func (n *next) want(t *testing.T, what string, all ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := slices.Sorted(maps.Keys(n.holds)); !slices.Equal(got, slices.Sorted(slices.Values(all))) {
		t.Errorf("%s: what counts is %q; want %q", what, got, all)
	}
}

// bed is a program's sources.
type bed struct {
	*lasting.Sources
	next   *next
	shards *shards.Set
	end    func()
}

// start has sources run as a program that was just started has, until end or the end of the test.
func start(t *testing.T, dir string) *bed {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{next: &next{holds: map[string]bool{}}}
	b.shards = shards.New(b.next, nil)
	b.Sources = lasting.New(b.shards, lasting.Files{Dir: dir, Suffix: ".kept", Prefix: "Kind/", Rules: decoder}, discard)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Run(ctx)
	}()
	b.end = func() { cancel(); <-done }
	t.Cleanup(b.end)
	return b
}

// phase returns the phase of a source, with its detail.
func (b *bed) phase(name string) string {
	for _, s := range b.shards.Standings() {
		if s.Source == name {
			return strings.TrimSuffix(s.Phase+": "+s.Detail, ": ")
		}
	}
	return ""
}

var discard = slog.New(slog.DiscardHandler)

const east, west = "Kind/east", "Kind/west"

const rule = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ["./*"]}]}
`

// has is an Update with services of a source, and a rule.
func has(t *testing.T, name string, hosts ...string) source.Update {
	t.Helper()
	u := source.Update{Synced: true, Fresh: true}
	u.Shards = []source.Shard{{Whole: true}}
	for _, host := range hosts {
		if host != ruled {
			u.Shards[0].Rows.Services = append(u.Shards[0].Rows.Services, &mesh.Service{
				Key: mesh.ServiceKey{Host: mesh.Host(host), Namespace: "shop", Registry: name},
			})
			continue
		}
		decoder, err := config.NewDecoder(config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o, problems := decoder.Decode(config.Document{File: name, Line: 1, Text: []byte(rule)})
		if o == nil {
			t.Fatal(problems)
		}
		u.Shards[0].Rows.Objects = append(u.Shards[0].Rows.Objects, o)
	}
	return u
}

// ruled names the rule in the lists of rows.
const ruled = "Sidecar shop/default"

// now is when tests look.
func now() time.Time { return time.Now() }

// TestStartedWhileAway: a program that is started while a source is away begins with the source's last rows, rules too, until it is
// read again.
func TestStartedWhileAway(t *testing.T) {
	dir := t.TempDir()
	b, s := start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	s.says(has(t, east, "a", "b", ruled))
	b.next.want(t, "read", "a", "b", ruled)
	b.Tend(now())
	state, _ := b.Of(east)
	if !strings.HasPrefix(state.Kept, "on disk") {
		t.Errorf("it is kept %s", state.Kept)
	}
	b.end()
	at := filepath.Join(dir, "east.kept")
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}

	b, s = start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	b.next.want(t, "away", "a", "b", ruled)
	if state, _ := b.Of(east); state.AsOf.IsZero() {
		t.Error("nothing is known of it")
	}
	s.says(source.Update{Stale: "nobody answers"})
	b.next.want(t, "still away", "a", "b", ruled)
	s.says(has(t, east, "b", "c"))
	b.next.want(t, "read again", "b", "c")
	b.end() // it is written down then

	b, s = start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	b.next.want(t, "as it was read again", "b", "c")
}

// TestForgotten: if a source does not answer, its rows are removed from memory and disk when their time is over, and not before.
func TestForgotten(t *testing.T) {
	dir := t.TempDir()
	b, s := start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	s.says(has(t, east, "a", ruled))
	read := now()
	b.Tend(read)
	s.says(source.Update{Stale: "nobody answers"})
	b.Tend(read.Add(time.Hour))
	b.next.want(t, "away for an hour", "a", ruled)
	first := <-s.sinks // it starts over with another
	b.Tend(read.Add(time.Hour + time.Second))
	b.next.want(t, "away for longer")
	if _, err := os.Stat(filepath.Join(dir, "east.kept")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is there: %v", err)
	}
	first.Apply(has(t, east, "old"))
	b.next.want(t, "said by what was ended")
	s.says(has(t, east, "b"))
	b.next.want(t, "back", "b")
}

// A file that is older than the TTL is not used; one that another clock wrote counts from now.
func TestOldFile(t *testing.T) {
	for name, c := range map[string]struct {
		later time.Duration // than the file was written
		want  []string
	}{
		"old":             {-2 * time.Hour, nil},
		"young":           {-time.Minute, []string{"a"}},
		"of another time": {100 * time.Hour, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			content, err := kept.Encode(kept.Cluster{Registry: east, AsOf: now().Add(c.later), Shards: has(t, east, "a").Shards}, true)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "east.kept"), content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			b, s := start(t, dir), newPlayed(east)
			b.Set([]lasting.Spec{s.spec()})
			b.next.want(t, name, c.want...)
			if state, _ := b.Of(east); state.AsOf.After(now()) {
				t.Errorf("it is known as of %s", state.AsOf)
			}
		})
	}
}

// A source that is no longer named is removed with all of its rows, even if it was away; other sources stay.
func TestRemoved(t *testing.T) {
	dir := t.TempDir()
	b, one, other := start(t, dir), newPlayed(east), newPlayed(west)
	ended := make(chan struct{})
	spec := one.spec()
	spec.Make = func() (source.Source, func(), error) { return one, func() { close(ended) }, nil }
	b.Set([]lasting.Spec{spec, other.spec()})
	one.says(has(t, east, "a", ruled))
	other.says(has(t, west, "b"))
	b.Tend(now())
	one.says(source.Update{Stale: "nobody answers"})
	if gone := b.Set([]lasting.Spec{other.spec()}); !slices.Equal(gone, []string{east}) {
		t.Errorf("gone are %q", gone)
	}
	<-ended
	b.next.want(t, "one is gone", "b")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "west.kept" {
		t.Errorf("kept are %v, %v", entries, err)
	}
	b.end()
	// It is not named while the program is started: its file goes too.
	b = start(t, dir)
	b.Set([]lasting.Spec{newPlayed(east).spec()})
	b.next.want(t, "another is named")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("kept are %v, %v", entries, err)
	}
}

// A source with a changed Spec starts over, and its rows stay until it is read.
func TestReadOtherwise(t *testing.T) {
	b, before, after := start(t, ""), newPlayed(east), newPlayed(east)
	b.Set([]lasting.Spec{before.spec()})
	before.says(has(t, east, "a", "b"))
	old := <-before.sinks
	spec := after.spec()
	spec.Sum[0] = 1
	b.Set([]lasting.Spec{spec})
	b.next.want(t, "not read yet", "a", "b")
	old.Apply(has(t, east, "old"))
	b.next.want(t, "said by what was ended", "a", "b")
	after.says(has(t, east, "b"))
	b.next.want(t, "read", "b")
	b.Tend(now())
	if state, is := b.Of(east); !is || state.Kept != "in memory" {
		t.Errorf("it is kept %+v, %t", state, is)
	}
}

// TestDamaged: if the saved rows cannot be used, this is reported; the file is written again once the source is read.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "east.kept")
	if err := os.WriteFile(at, []byte("{\"Version\":2}\n[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, s := start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	b.next.want(t, "damaged")
	if state, _ := b.Of(east); !strings.HasPrefix(state.Kept, "not read: ") {
		t.Errorf("it is kept %q", state.Kept)
	}
	s.says(has(t, east, "a"))
	b.Tend(now())
	if state, _ := b.Of(east); !strings.HasPrefix(state.Kept, "on disk") {
		t.Errorf("it is kept %q", state.Kept)
	}
}

// TestTooLarge: if there are more rows than can be saved, this is reported, and the program is not affected otherwise.
func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	b, s := start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	u := has(t, east, "a")
	u.Shards[0].Rows.Services[0].Addresses = []string{strings.Repeat("x", 64<<20)}
	s.says(u)
	b.Tend(now())
	if state, _ := b.Of(east); !strings.Contains(state.Kept, "not written: more than") {
		t.Errorf("it is kept %q", state.Kept)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("kept are %v, %v", entries, err)
	}
	b.next.want(t, "too large", "a")
}

// TestCannotBeMade: a source that cannot be made reports the reason, delays no other source, keeps its rows, is tried again, and
// can be removed.
func TestCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	b, s := start(t, dir), newPlayed(east)
	b.Set([]lasting.Spec{s.spec()})
	s.says(has(t, east, "a", ruled))
	b.Tend(now())
	b.end()

	b, s = start(t, dir), newPlayed(east)
	missing := errors.New("there is no such file")
	var why atomic.Pointer[error] // the sources' own goroutine reads it
	why.Store(&missing)
	spec := s.spec()
	spec.Make = func() (source.Source, func(), error) { return s, nil, *why.Load() }
	b.Set([]lasting.Spec{spec})
	b.next.want(t, "it cannot be made", "a", ruled)
	if p := b.phase(east); !strings.HasSuffix(p, ": there is no such file") {
		t.Errorf("it is %q", p)
	}
	if n := b.Count(); n != 0 {
		t.Errorf("%d are read", n)
	}
	why.Store(new(error))
	b.Tend(now())
	s.says(has(t, east, "b"))
	b.next.want(t, "it can", "b")
	if p := b.phase(east); p != "synced" {
		t.Errorf("it is %q", p)
	}

	why.Store(&missing)
	spec.Sum[0] = 1
	b.Set([]lasting.Spec{spec})
	b.next.want(t, "it cannot be read otherwise", "b")
	b.Set([]lasting.Spec{spec})
	b.next.want(t, "nor now", "b")
	if gone := b.Set(nil); !slices.Equal(gone, []string{east}) {
		t.Errorf("gone are %q", gone)
	}
	b.next.want(t, "nothing names it")
	if p := b.phase(east); p != "" {
		t.Errorf("it is %q", p)
	}
}

// A source that ends by itself reports it, and its rows stay.
func TestEndsByItself(t *testing.T) {
	b, s := start(t, ""), newPlayed(east)
	s.fails = errors.New("it can never work")
	b.Set([]lasting.Spec{s.spec()})
	<-s.sinks
	b.end() // waits for it
	if p := b.phase(east); p != "waiting: it can never work" {
		t.Errorf("it is %q", p)
	}
	if gone := b.Set([]lasting.Spec{newPlayed(west).spec()}); gone != nil || b.Count() != 0 {
		t.Errorf("after the end %q are gone, and %d are read", gone, b.Count())
	}
}

// TestInterval: the shorter the TTL, the shorter the interval between checks.
func TestInterval(t *testing.T) {
	b, s := start(t, ""), newPlayed(east)
	if got := b.Interval(); got != 30*time.Second {
		t.Errorf("without sources it is %s", got)
	}
	spec := s.spec()
	spec.TTL = 10 * time.Second
	b.Set([]lasting.Spec{spec})
	if got := b.Interval(); got != time.Second {
		t.Errorf("it is %s", got)
	}
}
