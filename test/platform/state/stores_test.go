package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/state"
	"fairway/internal/state/address"
	"fairway/test/gate"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/rig"
)

// server is a store as tests see it.
type server interface {
	Address() string
	Kill()
	Freeze()
	Thaw()
	Gate(t testing.TB) (*gate.Gate, string)
}

// kinds are those of stores, with how a server is started. Consul is to allow leases that a test need not wait for.
var kinds = []struct {
	name, kind string
	start      func(testing.TB) server
}{
	{"etcd", "etcd", startEtcd},
	{"Consul", "consul", func(t testing.TB) server {
		return consulserver.Start(t, consulserver.Options{HCL: `session_ttl_min = "1s"`})
	}},
}

func startEtcd(t testing.TB) server { return etcdserver.Start(t, etcdserver.Options{}) }

// stores runs a test with each kind of store, on a server of its own.
func stores(t *testing.T, do func(t *testing.T, kind string, s server)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { do(t, k.kind, k.start(t)) })
	}
}

// TestStores runs tests that wait more than they work side by side, on one server of each kind: each has a prefix of its own.
func TestStores(t *testing.T) {
	all := map[string]func(t *testing.T, kind string, at server){
		"Records": testRecords, "OneIsFirst": testOneIsFirst, "Watched": testWatched, "Lease": testLease,
		"NeverTwoWriters": testNeverTwoWriters, "OneAuthority": testOneAuthority, "TokensAreUsedOnce": testTokensAreUsedOnce,
		"RevocationsArrive": testRevocationsArrive, "StoreIsAway": testStoreIsAway, "Backup": testBackup,
		"StartsWhileTheStoreIsAway": testStartsWhileTheStoreIsAway, "MachinesAreShared": testMachinesAreShared,
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			at := k.start(t)
			for name, do := range all {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					do(t, k.kind, at)
				})
			}
		})
	}
}

// prefix is that of a test's records.
func prefix(t testing.TB) string { return "test/" + strings.ReplaceAll(t.Name(), "/", "-") }

// brief are times of leases with which a test need not wait.
func brief() state.Times {
	return state.Times{
		Within: 2 * time.Second, Looks: 500 * time.Millisecond,
		Lasts: 3 * time.Second, Leads: 2 * time.Second, Renews: 400 * time.Millisecond,
	}
}

// open returns a client of a store at an address.
func open(t *testing.T, kind, at string) state.Store {
	t.Helper()
	a, err := address.Parse(kind + "://" + at + "/" + prefix(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// testRecords: a record changes only from the revision that was read; each change has another one.
func testRecords(t *testing.T, kind string, at server) {
	s, ctx := open(t, kind, at.Address()), t.Context()
	get := func(name string) state.Record {
		t.Helper()
		r, err := s.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	must := func(want error, w state.Write) {
		t.Helper()
		if err := s.Put(ctx, w); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", w.Name, err, want)
		}
	}
	if r := get("a/x"); r.Revision != 0 || r.Value != nil {
		t.Errorf("a missing record is %+v", r)
	}
	must(nil, state.Write{Name: "a/x", Value: []byte("1")})
	must(state.ErrConflict, state.Write{Name: "a/x", Value: []byte("2")})
	first := get("a/x")
	must(nil, state.Write{Name: "a/x", Value: []byte("2"), Revision: first.Revision})
	must(state.ErrConflict, state.Write{Name: "a/x", Value: []byte("3"), Revision: first.Revision})
	must(state.ErrConflict, state.Write{Name: "a/x", Revision: first.Revision})
	must(nil, state.Write{Name: "a/y", Value: []byte("y")})
	must(nil, state.Write{Name: "b/x", Value: []byte("b")})
	all, err := s.List(ctx, "a/")
	if err != nil || len(all) != 2 || string(all[0].Value) != "2" || all[1].Name != "a/y" {
		t.Errorf("listed %+v, %v", all, err)
	}
	must(nil, state.Write{Name: "a/x", Revision: get("a/x").Revision})
	if r := get("a/x"); r.Revision != 0 {
		t.Errorf("a removed record is %+v", r)
	}
	if err := s.Put(ctx, state.Write{Name: "large", Value: make([]byte, state.MostValue+1)}); err == nil {
		t.Error("a record is larger than all stores take")
	}
	must(nil, state.Write{Name: "large", Value: make([]byte, state.MostValue)})
}

// testOneIsFirst: of many that change a record from the same revision one succeeds, each time.
func testOneIsFirst(t *testing.T, kind string, at server) {
	clients := []state.Store{open(t, kind, at.Address()), open(t, kind, at.Address()), open(t, kind, at.Address())}
	for round := range 10 {
		name := fmt.Sprintf("r/%d", round)
		var won atomic.Int32
		var g sync.WaitGroup
		for i := range 12 {
			g.Go(func() {
				err := clients[i%3].Put(t.Context(), state.Write{Name: name, Value: []byte{byte(i)}})
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, state.ErrConflict) {
					t.Error(err)
				}
			})
		}
		g.Wait()
		if won.Load() != 1 {
			t.Errorf("%d of 12 were first", won.Load())
		}
	}
}

// testWatched: a watch reports each change below its prefix, and needs no change elsewhere for that.
func testWatched(t *testing.T, kind string, at server) {
	s := open(t, kind, at.Address())
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan struct{}, 100)
	over := make(chan error, 1)
	go func() { over <- s.Watch(ctx, "ca/", func() { told <- struct{}{} }) }()
	await := func(what string) {
		t.Helper()
		select {
		case <-told:
		case err := <-over:
			t.Fatal(err)
		case <-time.After(rig.Bound):
			t.Fatalf("%s is not told", what)
		}
	}
	await("that the watch stands")
	for i := range 3 {
		r, err := s.Get(ctx, "ca/x")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, state.Write{Name: "ca/x", Value: []byte{byte(i)}, Revision: r.Revision}); err != nil {
			t.Fatal(err)
		}
		await("a change")
	}
	cancel()
	if err := <-over; err == nil {
		t.Error("a watch ends without an error")
	}
}

// testLease: one holds the lease; a write below the fence of another lease is refused; a lease that is not renewed ends.
func testLease(t *testing.T, kind string, at server) {
	const lasts = 2 * time.Second
	a, b, ctx := open(t, kind, at.Address()), open(t, kind, at.Address()), t.Context()
	first, err := a.Acquire(ctx, "a", lasts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Acquire(ctx, "b", lasts); !errors.Is(err, state.ErrHeld) {
		t.Fatalf("the lease has two holders: %v", err)
	}
	if err := first.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Put(ctx, state.Write{Name: "x", Value: []byte("1"), Fence: first.Fence()}); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	var second state.Lease
	rig.Eventually(t, func() error { second, err = b.Acquire(ctx, "b", lasts); return err })
	if err := a.Put(ctx, state.Write{Name: "y", Value: []byte("1"), Fence: first.Fence()}); !errors.Is(err, state.ErrFenced) {
		t.Errorf("a write below a lease that has ended: %v", err)
	}
	if err := first.Renew(ctx); !errors.Is(err, state.ErrFenced) {
		t.Errorf("a lease that has ended is renewed: %v", err)
	}
	if err := b.Put(ctx, state.Write{Name: "x", Value: []byte("2"), Fence: second.Fence()}); !errors.Is(err, state.ErrConflict) {
		t.Errorf("the fence takes the place of the revision: %v", err)
	}
	// From here on it is not renewed.
	rig.Eventually(t, func() error { _, err := a.Acquire(ctx, "a", lasts); return err })
	if err := b.Put(ctx, state.Write{Name: "y", Value: []byte("1"), Fence: second.Fence()}); !errors.Is(err, state.ErrFenced) {
		t.Errorf("a write below a lease that was not renewed: %v", err)
	}
}

// testNeverTwoWriters: one control plane after the other is cut from the store while it holds the lease. No two hold it at a time, and each
// time another one does in the end.
func testNeverTwoWriters(t *testing.T, kind string, at server) {
	var all []*state.Shared
	var gates []*gate.Gate
	for i := range 3 {
		g, _ := at.Gate(t)
		gates = append(gates, g)
		one := state.New(open(t, kind, fmt.Sprintf("127.0.0.1:%d", g.Port())), state.Sealer{}, fmt.Sprint(i), slog.New(slog.DiscardHandler))
		one.SetTimes(brief())
		all = append(all, one)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	defer g.Wait()
	defer cancel()
	for _, s := range all {
		g.Go(func() { _ = s.Run(ctx) })
	}
	g.Go(func() { watchWriters(ctx, t, all) })
	last := -1
	for range 3 {
		holder := awaitWriter(t, all, last)
		gates[holder].Freeze()
		if next := awaitWriter(t, all, holder); next == holder {
			t.Errorf("%d is cut from the store, and writes", holder)
		} else {
			last = -1
		}
		gates[holder].Thaw()
	}
}

// watchWriters fails the test if two control planes say at once that they write.
func watchWriters(ctx context.Context, t *testing.T, all []*state.Shared) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var writers []int
		for i, s := range all {
			if s.Status().Writes {
				writers = append(writers, i)
			}
		}
		if len(writers) < 2 {
			continue
		}
		again := 0 // the looks above were one after the other: the first may have ended before the second began
		for i := len(writers) - 1; i >= 0; i-- {
			if all[writers[i]].Status().Writes {
				again++
			}
		}
		if again > 1 {
			t.Errorf("control planes %v write at once", writers)
			return
		}
	}
}

func awaitWriter(t *testing.T, all []*state.Shared, except int) (holder int) {
	t.Helper()
	deadline := time.Now().Add(2 * rig.Bound)
	for time.Now().Before(deadline) {
		for i, s := range all {
			if i != except && s.Status().Writes {
				return i
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("no control plane writes")
	return 0
}
