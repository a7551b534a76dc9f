package scope

import (
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file has hosts that are other names for hosts (Services of type ExternalName), as a layer means them: as Istio has
// them since its release 1.21, such a name is nothing of its own where what it stands for is known.

// declareAliased finds the layers in which something of an alias may be otherwise than below: those that have a row of
// their own of it, or of what it stands for.
func (t *Tables) declareAliased() {
	own := table.Derive(t.Seen, "aliases seen", CompareKey, table.Same[struct{}],
		func(r *table.Reader, k Key, s *Seen, emit func(Key, struct{})) {
			if t.reg.Alias(r, s.Service) != "" {
				emit(k, struct{}{})
			}
		})
	// A row of its own for each pair: two rows of one layer may stand behind the same alias.
	type pair struct {
		Key
		to mesh.Host
	}
	byTarget := table.Derive(t.Seen, "aliases of what is seen", func(a, b pair) int {
		if c := CompareKey(a.Key, b.Key); c != 0 {
			return c
		}
		return CompareKey(Key{Host: a.to}, Key{Host: b.to})
	}, table.Same[struct{}],
		func(r *table.Reader, k Key, _ *Seen, emit func(pair, struct{})) {
			for _, alias := range t.reg.Aliases(r, k.Host) {
				emit(pair{Key{k.Layer, alias}, k.Host}, struct{}{})
			}
		})
	through := table.Derive(
		table.Group(byTarget, "aliases of what is seen/by alias", CompareKey, func(p pair, _ struct{}) []Key { return []Key{p.Key} }),
		"aliases of seen", CompareKey, table.Same[struct{}],
		func(_ *table.Reader, k Key, _ table.Rows[pair, struct{}], emit func(Key, struct{})) {
			emit(k, struct{}{})
		})
	t.Aliased = table.Union("aliases in layers", CompareKey, table.Same[struct{}], nil, table.Whole(own), table.Whole(through))
}

// Concrete is what a layer means by a host that is another name for it, or for a name that is, as far as the layer sees
// them: the last host, and what is seen of it. nil: the host is no such name, stands for nothing that the layer sees, or
// the names go round in a circle.
func (t *Tables) Concrete(r *table.Reader, l mesh.Layer, alias mesh.Host) (mesh.Host, *Seen) {
	return t.ConcreteOf(r, l, alias, t.Look(r, l, alias))
}

// ConcreteOf is Concrete of a host of which it is known what the layer sees; it reads nothing more of one that is no alias.
func (t *Tables) ConcreteOf(r *table.Reader, l mesh.Layer, alias mesh.Host, seen *Seen) (mesh.Host, *Seen) {
	at := alias
	for range registry.MostAliases + 1 {
		if seen == nil || seen.Service == nil || seen.Destination {
			return "", nil
		}
		to := t.reg.Alias(r, seen.Service)
		next := (*Seen)(nil)
		if to != "" {
			next = t.Look(r, l, to)
		}
		if next == nil || next.Service == nil || next.Destination {
			if at == alias {
				return "", nil
			}
			return at, seen
		}
		at, seen = to, next
	}
	return "", nil
}
