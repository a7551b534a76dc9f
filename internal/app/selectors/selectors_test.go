package selectors_test

import (
	"context"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/app/selectors"
	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/source"
)

// reader keeps the selectors that it was given.
type reader struct{ told []*config.Discovery }

func (r *reader) Discover(d *config.Discovery) { r.told = append(r.told, d) }

// file is a source that hands in one update.
type file struct{ source.Update }

func (file) Name() string { return "file" }
func (f file) Run(_ context.Context, sink source.Sink) error {
	sink.Apply(f.Update)
	return nil
}

type sink struct{ got []source.Update }

func (s *sink) Apply(u source.Update) { s.got = append(s.got, u) }

// plane is the tables, and the selectors that follow them.
type plane struct {
	*compile.Graph
	*selectors.Selectors
}

func newPlane() plane {
	g := compile.New(compile.Options{})
	return plane{g, selectors.New("istio-system", g.Store, g.In.Mesh)}
}

func (p plane) turn() {
	p.Store.Settle()
	p.Follow()
}

// selects stages a mesh configuration that selects namespaces with a label.
func (p plane) selects(label string) {
	spec := &meshconfig.MeshConfig{DiscoverySelectors: []*meshconfig.LabelSelector{{MatchLabels: map[string]string{label: "yes"}}}}
	var b source.Batch
	b.Set.Objects = append(b.Set.Objects, &config.Object{
		Key: config.Key{Kind: config.MeshConfig}, Spec: spec, Hash: uint64(len(label)),
	})
	p.In.Apply(b)
}

// TestSourcesAreTold: a source gets selectors once all sources that may have a mesh configuration have been read, and at each change.
func TestSourcesAreTold(t *testing.T) {
	p := newPlane()
	early, late, gone := &reader{}, &reader{}, &reader{}
	p.Add(early)
	p.Add(gone)
	p.selects("mesh")
	p.Read(selectors.Cluster)
	p.Read(selectors.Cluster)
	if p.turn(); len(early.told) > 0 {
		t.Fatal("the source gets selectors before the files have been read")
	}
	to := &sink{}
	for _, synced := range []bool{false, true} {
		if err := p.Origin(file{source.Update{Synced: synced}}, selectors.Files).Run(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		p.turn()
		if told := len(early.told) > 0; told != synced {
			t.Errorf("synced %t: told %t", synced, told)
		}
	}
	if len(to.got) != 2 {
		t.Errorf("%d updates reached the sink, want 2", len(to.got))
	}
	p.Add(late)
	if len(late.told) != 1 || !late.told[0].Sees("shop", map[string]string{"mesh": "yes"}) || late.told[0].Sees("shop", nil) {
		t.Errorf("a source that comes late gets %v", late.told)
	}
	p.Remove(gone)
	p.selects("other")
	p.turn()
	p.turn()
	if n := len(early.told); n != 2 || !early.told[1].Sees("shop", map[string]string{"other": "yes"}) {
		t.Errorf("told %d times, want twice", n)
	}
	if len(gone.told) != 1 {
		t.Error("a source that was removed gets selectors")
	}
	var b source.Batch
	b.Gone.Objects = append(b.Gone.Objects, config.Key{Kind: config.MeshConfig})
	p.In.Apply(b)
	p.turn()
	if n := len(early.told); n != 3 || !early.told[2].All() {
		t.Errorf("told %d times, want the third to select all namespaces", n)
	}
}

// TestNothingIsReadByMistake: a mesh configuration that was handed over before its origin was read counts from the first selectors on, even
// if no turn came in between.
func TestNothingIsReadByMistake(t *testing.T) {
	p, r := newPlane(), &reader{}
	p.Add(r)
	p.Read(selectors.Files)
	p.turn()
	p.selects("mesh")
	p.Read(selectors.Cluster)
	if p.turn(); len(r.told) != 1 || r.told[0].Sees("shop", nil) {
		t.Errorf("the first selectors are %v", r.told)
	}
}
