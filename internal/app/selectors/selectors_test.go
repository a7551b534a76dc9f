package selectors_test

import (
	"context"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/app/selectors"
	"fairway/internal/config"
	"fairway/internal/source"
)

// batches counts the batches that are passed on.
type batches int

func (b *batches) Apply(source.Batch) { *b++ }

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

// selecting is a mesh configuration that selects namespaces with a label.
func selecting(t *testing.T, label string) source.Batch {
	t.Helper()
	spec := &meshconfig.MeshConfig{DiscoverySelectors: []*meshconfig.LabelSelector{{MatchLabels: map[string]string{label: "yes"}}}}
	var b source.Batch
	b.Set.Objects = append(b.Set.Objects, &config.Object{Key: config.Key{Kind: config.MeshConfig}, Spec: spec})
	return b
}

// TestSourcesAreTold: a source gets selectors once all sources that may have a mesh configuration have been read, and at each change.
func TestSourcesAreTold(t *testing.T) {
	var passed batches
	s := selectors.New("istio-system", &passed)
	early, late, gone := &reader{}, &reader{}, &reader{}
	s.Add(early)
	s.Add(gone)
	s.Apply(selecting(t, "mesh"))
	s.Read(selectors.Cluster)
	s.Read(selectors.Cluster)
	if len(early.told) > 0 {
		t.Fatal("the source gets selectors before the files have been read")
	}
	to := &sink{}
	for _, synced := range []bool{false, true} {
		if err := s.Origin(file{source.Update{Synced: synced}}, selectors.Files).Run(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		if told := len(early.told) > 0; told != synced {
			t.Errorf("synced %t: told %t", synced, told)
		}
	}
	if len(to.got) != 2 {
		t.Errorf("%d updates reached the sink, want 2", len(to.got))
	}
	s.Add(late)
	if len(late.told) != 1 || !late.told[0].Sees("shop", map[string]string{"mesh": "yes"}) || late.told[0].Sees("shop", nil) {
		t.Errorf("a source that comes late gets %v", late.told)
	}
	s.Remove(gone)
	s.Apply(selecting(t, "other"))
	s.Apply(source.Batch{})
	if n := len(early.told); n != 2 || !early.told[1].Sees("shop", map[string]string{"other": "yes"}) {
		t.Errorf("told %d times, want twice", n)
	}
	if len(gone.told) != 1 {
		t.Error("a source that was removed gets selectors")
	}
	var b source.Batch
	b.Gone.Objects = append(b.Gone.Objects, config.Key{Kind: config.MeshConfig})
	s.Apply(b)
	if n := len(early.told); n != 3 || !early.told[2].All() {
		t.Errorf("told %d times, want the third to select all namespaces", n)
	}
	if passed != 4 {
		t.Errorf("%d batches were passed on, want 4", passed)
	}
}
