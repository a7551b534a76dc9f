package replay

import (
	"context"
	"slices"

	"fairway/internal/app/loop"
	"fairway/internal/compile"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/source"
	"fairway/internal/source/shards"
)

// Sources returns the sources of a snapshot, in order of precedence; nil: none.
func Sources(s *snapshot.Snapshot) (out []source.Source) {
	if s == nil {
		return nil
	}
	for _, said := range s.Sources {
		out = append(out, from{said})
	}
	return out
}

// from hands in what a source of the snapshot handed in.
type from struct{ said shards.Said }

// Name implements source.Source.
func (f from) Name() string { return f.said.Name + " (replayed)" }

// Run implements source.Source.
func (f from) Run(ctx context.Context, sink source.Sink) error {
	sink.Apply(source.Update{Shards: f.said.Shards, Problems: f.said.Problems, Synced: true})
	<-ctx.Done()
	return nil
}

// Stage puts what a snapshot has beside its sources into the tables, except its proxies, which connect by themselves; nil: nothing.
func Stage(s *snapshot.Snapshot, g *compile.Graph) {
	if s == nil {
		return
	}
	o := s.Outside
	o.Proxies = nil
	o.Stage(g)
}

// Known returns what a snapshot knows of a proxy with a node id; nil: there is no snapshot. If several proxies have the same node id, the
// one that proved most counts.
func Known(s *snapshot.Snapshot) func(node string) (mesh.Proxy, bool) {
	if s == nil {
		return nil
	}
	byNode := map[string]mesh.Proxy{}
	for _, r := range s.Outside.Proxies {
		node := r.Key.Node()
		if was, has := byNode[node]; !has || r.Value.Standing > was.Standing {
			byNode[node] = r.Value
		}
	}
	return func(node string) (p mesh.Proxy, is bool) {
		p, is = byNode[node]
		return p, is
	}
}

// Followers leaves out those that ask outside, if there is a snapshot.
func Followers(s *snapshot.Snapshot, all []loop.Follower) []loop.Follower {
	if s == nil {
		return all
	}
	return slices.DeleteFunc(all, func(f loop.Follower) bool { return f.Asks })
}
