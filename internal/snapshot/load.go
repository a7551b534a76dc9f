package snapshot

import (
	"fmt"

	"fairway/internal/compile"
	"fairway/internal/door"
	"fairway/internal/envoy"
	"fairway/internal/quota"
	"fairway/internal/source"
	"fairway/internal/source/shards"
	"fairway/internal/table"
)

// World is the tables of a snapshot, and the stations before them, as a control plane has them. Nothing waits at its door. One goroutine at
// a time may use it.
type World struct {
	Graph   *compile.Graph
	Shards  *shards.Set
	Budgets *quota.Gate
	Door    *door.Door
}

// Load builds the tables of a snapshot.
func Load(s *Snapshot) (*World, error) {
	o := s.Head.Options
	w := &World{Graph: compile.New(o.Graph())}
	w.Door = door.New(door.Options{DomainSuffix: o.DomainSuffix}, w.Graph.In)
	w.Budgets = quota.New(quota.Options{DomainSuffix: o.DomainSuffix, RootNamespace: o.RootNamespace}, w.Door)
	w.Shards = shards.New(w.Budgets, nil)
	s.Outside.Stage(w.Graph)
	sinks := make([]source.Sink, len(s.Sources))
	for i, from := range s.Sources {
		join := w.Shards.Join
		if from.Last {
			join = w.Shards.JoinLast
		}
		sink, err := join(from.Name, 0)
		if err != nil {
			return nil, fmt.Errorf("load a snapshot: %w", err)
		}
		sinks[i] = sink
	}
	for i, from := range s.Sources {
		sinks[i].Apply(source.Update{Shards: from.Shards, Problems: from.Problems, Synced: true})
	}
	w.Settle()
	return w, nil
}

// Settle computes all rows, until no answer changes any more which policies are in force.
func (w *World) Settle() {
	for turn := w.Graph.Store.Settle(); turn.Staged > 0; turn = w.Graph.Store.Settle() {
		w.Graph.Remember()
		w.Graph.Store.Forget()
	}
}

// Stage puts the rows into inputs that have none of them, for the next turn.
func (o *Outside) Stage(g *compile.Graph) {
	in := g.In
	stage(in.Proxies, o.Proxies)
	stage(in.Health, o.Health)
	if o.HealthReady {
		in.HealthReady.Set(struct{}{}, true)
	}
	if o.SourcesRead {
		in.SourcesRead.Set(struct{}{}, true)
	}
	stage(in.HealthStored, o.HealthStored)
	stage(in.Members, o.Members)
	for _, r := range o.Roots {
		in.Bundles.Set(r.Key, envoy.Sealed(r.Value, nil))
	}
	stage(in.KeySets, o.KeySets)
	stage(in.Resolved, o.Resolved)
	stage(in.Rejections, o.Rejections)
	stage(in.Unreadable, o.Unreadable)
	if o.OnDemand {
		g.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	}
	for _, k := range o.SecretsRead {
		g.Secrets.Read.Set(k, struct{}{})
	}
	for _, e := range o.Enforced {
		in.Enforced.Set(e.Key, e.Unplaced())
	}
}

func stage[K comparable, V any](in *table.Input[K, V], rows []Row[K, V]) {
	for _, r := range rows {
		in.Set(r.Key, r.Value)
	}
}
