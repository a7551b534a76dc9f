package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kube"
	"fairway/internal/source/shards"
	"fairway/test/rig"
)

// watcher is a source that runs, and the result of its updates.
type watcher struct {
	set  *shards.Set
	stop context.CancelFunc
	done chan struct{}
	log  *text
	from *kube.Source

	mu       sync.Mutex
	holds    map[string]string // rows by kind and key, printed
	problems map[string][]mesh.Problem
	batches  int
	rows     int             // that batches set or took away
	updates  int             // that the source made
	whole    map[string]int  // lists, by kind
	history  []string        // keys of rows that were set
	looked   map[string]bool // wanted objects, and whether their state is known
}

// watch runs a source of a cluster, and waits until it has synced.
func watch(t testing.TB, c *rest.Config, tune ...func(*kube.Options)) *watcher {
	t.Helper()
	w := start(t, c, tune...)
	w.phase(t, "synced", "")
	return w
}

func start(t testing.TB, c *rest.Config, tune ...func(*kube.Options)) *watcher {
	t.Helper()
	return begin(t, c, false, tune...)
}

// begin starts a source. If scoped, the source waits until its namespaces are selected.
func begin(t testing.TB, c *rest.Config, scoped bool, tune ...func(*kube.Options)) *watcher {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{
		done: make(chan struct{}), log: &text{},
		holds: map[string]string{}, problems: map[string][]mesh.Problem{}, whole: map[string]int{}, looked: map[string]bool{},
	}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.set = shards.New(w, log)
	o := kube.Options{
		Cluster: "east", Domain: "cluster.local", Namespace: "istio-system",
		Config: c, Decoder: decoder, Log: log, Patience: 100 * time.Millisecond, Secrets: mostSecrets, Scoped: scoped,
		OnLookup: func(k config.Key, known bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.looked[k.String()] = known
		},
	}
	for _, set := range tune {
		set(&o)
	}
	s, err := kube.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.from = s
	sink, err := w.set.Join(s.Name(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() {
		defer close(w.done)
		if err := s.Run(ctx, counting{w, sink}); err != nil {
			t.Errorf("the source ended with %v", err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-w.done
		if t.Failed() {
			t.Logf("--- the source's log\n%s", w.log)
		}
	})
	return w
}

// counting counts what a source says.
type counting struct {
	w *watcher
	source.Sink
}

func (c counting) Apply(u source.Update) {
	c.w.mu.Lock()
	c.w.updates++
	for _, s := range u.Shards {
		if s.Whole && (s.Key.Part == "" || s.Key.Kind == string(config.Secret)) { // else it is one namespace of many
			c.w.whole[s.Key.Kind]++
		}
	}
	c.w.mu.Unlock()
	c.Sink.Apply(u)
}

// Apply takes what became different.
func (w *watcher) Apply(b source.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches++
	w.rows += b.Set.Len() + b.Gone.Len()
	for _, k := range b.Gone.Objects {
		delete(w.holds, k.String())
	}
	for _, k := range b.Gone.Services {
		delete(w.holds, "service "+k.String())
	}
	for _, k := range b.Gone.Slices {
		delete(w.holds, "slice "+k.String())
	}
	for _, k := range b.Gone.Workloads {
		delete(w.holds, "workload "+k.String())
	}
	for _, k := range b.Gone.Machines {
		delete(w.holds, "machine "+k.String())
	}
	for _, k := range b.Gone.Namespaces {
		delete(w.holds, "namespace "+k.String())
	}
	for _, o := range b.Set.Objects {
		w.history = append(w.history, o.Key.String())
		if w.holds[o.Key.String()] = fmt.Sprint(o.Spec); o.Native != nil {
			w.holds[o.Key.String()] = fmt.Sprint(o.Native)
		}
	}
	for _, s := range b.Set.Services {
		w.history = append(w.history, s.Key.String())
		w.holds["service "+s.Key.String()] = s.String()
	}
	for _, s := range b.Set.Slices {
		w.holds["slice "+s.Key.String()] = s.String()
	}
	for _, l := range b.Set.Workloads {
		w.history = append(w.history, l.Key.String())
		w.holds["workload "+l.Key.String()] = l.String()
	}
	for _, m := range b.Set.Machines {
		w.holds["machine "+m.Key.String()] = m.String()
	}
	for _, n := range b.Set.Namespaces {
		w.holds["namespace "+n.Key.String()] = n.String()
	}
	for at, list := range b.Problems {
		if delete(w.problems, at.Name); len(list) > 0 {
			w.problems[at.Name] = list
		}
	}
}

// until waits until ask, which may read the held rows, returns nil.
func (w *watcher) until(t testing.TB, ask func() error) {
	t.Helper()
	rig.Eventually(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return ask()
	})
}

// holding waits until the row of a key says something; "": until there is none.
func (w *watcher) holding(t testing.TB, key, want string) {
	t.Helper()
	w.until(t, func() error {
		got, has := w.holds[key]
		switch {
		case want == "" && has:
			return fmt.Errorf("%s is still there: %s", key, got)
		case want == "" || has && strings.Contains(got, want):
			return nil
		}
		return fmt.Errorf("%s is %q, not %q; there are %s", key, got, want, strings.Join(slices.Sorted(maps.Keys(w.holds)), "\n"))
	})
}

// lists is how often a kind was listed.
func (w *watcher) lists(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whole[kind]
}

// keeps is all that is held, to be compared later.
func (w *watcher) keeps() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.holds)
}

// phase waits until the source is in a phase.
func (w *watcher) phase(t testing.TB, want, detail string) {
	t.Helper()
	rig.Eventually(t, func() error {
		st := w.set.Standings()[0]
		if st.Phase != want || !strings.Contains(st.Detail, detail) {
			return errors.New("it is " + st.Phase + ": " + st.Detail)
		}
		return nil
	})
}

// text is a log that may be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

var errNone = errors.New("there is none")

func (w *watcher) counts() (batches, rows int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.batches, w.rows
}

// problem waits until a place has a problem that says something; "": until it has none.
func (w *watcher) problem(t testing.TB, at, want string) {
	t.Helper()
	w.until(t, func() error {
		if list := w.problems[at]; (want == "") != (len(list) == 0) || want != "" && !strings.Contains(fmt.Sprint(list), want) {
			return fmt.Errorf("%s has the problems %v, not %q; there are %v", at, list, want, w.problems)
		}
		return nil
	})
}

// changes is how many rows have been set.
func (w *watcher) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.history)
}

// since is the keys of objects, services and workloads that have been set since.
func (w *watcher) since(changes int) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]bool{}
	for _, k := range w.history[changes:] {
		out[k] = true
	}
	return out
}
