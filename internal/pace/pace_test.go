package pace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// bed is a pacer with turns that the test makes.
type bed struct {
	pacer *Pacer
	out   chan source.Batch
	turn  chan struct{}
}

func (b *bed) Apply(in source.Batch) { b.out <- in }
func (b *bed) Has(k config.Key) bool { return k.Name == "there" }

func start(t *testing.T) *bed {
	b := &bed{out: make(chan source.Batch, 100), turn: make(chan struct{})}
	b.pacer = New(b, func() <-chan struct{} { return b.turn })
	b.pacer.Apply(source.Batch{Synced: true})
	<-b.out
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); b.pacer.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return b
}

func service(i, ports int) *mesh.Service {
	return &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(fmt.Sprintf("s%04d", i))}, Ports: make([]mesh.Port, ports)}
}

func some(n int) (b source.Batch) {
	for i := range n {
		b.Set.Services = append(b.Set.Services, service(i, 1))
	}
	return b
}

// TestSmallBatchesGoOnWhole: small batches, even the largest of them, go on whole during Apply.
func TestSmallBatchesGoOnWhole(t *testing.T) {
	b := start(t)
	b.pacer.Apply(some(Rows))
	if got := <-b.out; len(got.Set.Services) != Rows {
		t.Errorf("%d rows", len(got.Set.Services))
	}
}

// TestEverythingAtTheStartIsOneTurn: batches go on whole until the sources have synced.
func TestEverythingAtTheStartIsOneTurn(t *testing.T) {
	b := &bed{out: make(chan source.Batch, 1)}
	New(b, nil).Apply(some(10 * Rows))
	if got := <-b.out; len(got.Set.Services) != 10*Rows {
		t.Errorf("%d rows", len(got.Set.Services))
	}
}

// TestLargeBatchesGoOnInPieces: a small batch overtakes the rest of a large one, and its rows are not overwritten.
func TestLargeBatchesGoOnInPieces(t *testing.T) {
	b := start(t)
	large := some(3 * Rows)
	large.Gone.Objects = []config.Key{{Kind: config.VirtualService, Name: "old"}, {Kind: config.VirtualService, Name: "kept"}}
	b.pacer.Apply(large)
	first := <-b.out
	if n := len(first.Set.Services); n != Rows || len(first.Gone.Objects) > 0 {
		t.Errorf("the first piece has %d rows and %d removals", n, len(first.Gone.Objects))
	}
	last := service(3*Rows-1, 7)
	b.pacer.Apply(source.Batch{
		Set: source.Rows{
			Services: []*mesh.Service{last}, Objects: []*config.Object{{Key: config.Key{Kind: config.VirtualService, Name: "kept"}}},
		},
		Gone: source.Keys{Services: []mesh.ServiceKey{service(3*Rows-2, 1).Key}},
	})
	has, removed := map[mesh.ServiceKey]int{}, map[string]bool{}
	var small source.Batch
	note := func(got source.Batch) {
		for _, s := range got.Set.Services {
			has[s.Key] = len(s.Ports)
		}
		for _, k := range got.Gone.Services {
			delete(has, k)
		}
		for _, k := range got.Gone.Objects {
			removed[k.Name] = true
		}
	}
	note(first)
	for len(small.Gone.Services) == 0 {
		small = <-b.out
		note(small)
	}
	for b.pacer.Waits() > 0 {
		note(<-b.out)
	}
	for len(b.out) > 0 {
		note(<-b.out)
	}
	if len(has) != 3*Rows-1 || has[last.Key] != 7 {
		t.Errorf("%d services, the overtaken one has %d ports", len(has), has[last.Key])
	}
	if !removed["old"] || removed["kept"] {
		t.Errorf("removed: %v", removed)
	}
}

func object(name string) *config.Object {
	return &config.Object{Key: config.Key{Kind: config.VirtualService, Name: name}}
}

// TestHeavyObjectsGoOnAlone: each is a piece of its own; light ones beside it share a piece, and other changes do not wait for them.
func TestHeavyObjectsGoOnAlone(t *testing.T) {
	b := start(t)
	var in source.Batch
	in.Weights = map[config.Key]int{}
	for i := range 4 {
		o := object(fmt.Sprintf("heavy-%d", i))
		in.Set.Objects = append(in.Set.Objects, o, object(fmt.Sprintf("light-%d", i)))
		in.Weights[o.Key] = 10 * Rows
	}
	gone := object("gone")
	in.Gone.Objects = []config.Key{gone.Key}
	in.Weights[gone.Key] = 10 * Rows
	b.pacer.Apply(in)
	var got, overtaken []string
	next := <-b.out
	b.pacer.Apply(some(1))
	for len(got) < 9 {
		if len(next.Set.Services) > 0 {
			overtaken = slices.Clone(got)
		}
		heavy := 0
		for _, o := range next.Set.Objects {
			got = append(got, o.Name)
			heavy += in.Weights[o.Key]
		}
		for _, k := range next.Gone.Objects {
			got = append(got, k.Name)
			heavy += in.Weights[k]
		}
		if heavy > 10*Rows {
			t.Errorf("one piece has %d objects that weigh %d rows", len(next.Set.Objects), heavy)
		}
		if len(next.Set.Services) == 0 {
			b.turn <- struct{}{}
		}
		if len(got) < 9 {
			next = <-b.out
		}
	}
	heavy := slices.DeleteFunc(slices.Clone(overtaken), func(name string) bool { return strings.HasPrefix(name, "light-") })
	if len(heavy) > 1 {
		t.Errorf("a small change came after %v", overtaken)
	}
	if got[8] != "gone" {
		t.Errorf("handed on: %v", got)
	}
}

// TestLightObjectsGoOnFirst: an object that produces few rows does not wait for large ones before it in the same batch.
func TestLightObjectsGoOnFirst(t *testing.T) {
	b := start(t)
	in := source.Batch{Weights: map[config.Key]int{}}
	for i := range 3 {
		o := object(fmt.Sprintf("heavy-%d", i))
		in.Set.Objects = append(in.Set.Objects, o)
		in.Weights[o.Key] = 5 * Rows
	}
	in.Set.Objects = append(in.Set.Objects, object("light"))
	b.pacer.Apply(in)
	if first := <-b.out; len(first.Set.Objects) != 1 || first.Set.Objects[0].Name != "light" {
		t.Errorf("first went on %v", first.Set.Objects)
	}
}

// TestASlowTurnIsAwaited: on a busy machine the next heavy object waits until the turn of the one before has ended.
func TestASlowTurnIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		in := source.Batch{Weights: map[config.Key]int{}}
		for i := range 2 {
			o := object(fmt.Sprintf("heavy-%d", i))
			in.Set.Objects = append(in.Set.Objects, o)
			in.Weights[o.Key] = 5 * Rows
		}
		b.pacer.Apply(in)
		<-b.out
		time.Sleep(3 * time.Second) // of the turn, in the bubble's time
		synctest.Wait()
		if len(b.out) > 0 {
			t.Error("the second went on during the turn of the first")
		}
		b.turn <- struct{}{}
		<-b.out
	})
}

// TestOneHeavyObjectIsLarge: alone in its batch it waits for Run like any large batch, and its key is known meanwhile.
func TestOneHeavyObjectIsLarge(t *testing.T) {
	b := &bed{out: make(chan source.Batch, 10)}
	p := New(b, nil)
	p.Apply(source.Batch{Synced: true})
	set, gone := object("set"), object("there")
	p.Apply(source.Batch{
		Set: source.Rows{Objects: []*config.Object{set}}, Gone: source.Keys{Objects: []config.Key{gone.Key}},
		Weights: map[config.Key]int{set.Key: Rows},
	})
	if p.Waits() != 2 || !p.Has(set.Key) || p.Has(gone.Key) {
		t.Errorf("%d rows wait; set is known: %v, gone is known: %v", p.Waits(), p.Has(set.Key), p.Has(gone.Key))
	}
	p.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{gone}}, Gone: source.Keys{Objects: []config.Key{set.Key}}})
	if p.Waits() != 0 || p.Has(set.Key) || !p.Has(gone.Key) {
		t.Errorf("%d rows wait; set is known: %v, there is known: %v", p.Waits(), p.Has(set.Key), p.Has(gone.Key))
	}
}
