package plan

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"fairway/internal/compile"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/table"
	"fairway/internal/trial"
	"fairway/internal/xdstype"
)

// Compare returns what the proxies of a snapshot would be sent differently by a control plane with another input. Its problems are those
// that only one of the two has.
func Compare(one, other *snapshot.Snapshot) (*Plan, error) {
	with := *other
	with.Outside.Proxies = one.Outside.Proxies
	before, err := snapshot.Load(one)
	if err != nil {
		return nil, err
	}
	after, err := snapshot.Load(&with)
	if err != nil {
		return nil, err
	}
	var out *Plan
	before.Graph.Store.Read(func(was *table.Tx) {
		after.Graph.Store.Read(func(is *table.Tx) {
			all := differences(newView(was, before.Graph), newView(is, after.Graph))
			out = gather(all).plan(func(id mesh.ProxyID, typ xdstype.Type, name string) *envoy.Encoded {
				return after.Graph.Out.Seen(is, id, typ, name)
			})
			out.Connected = table.Len(was, before.Graph.Out.Attachments)
		})
	})
	out.Added, out.Removed = problems(only(after.Graph, before.Graph)), problems(only(before.Graph, after.Graph))
	return out, nil
}

// only lists the problems that one graph has and another one has not. The places of objects do not count.
func only(one, other *compile.Graph) (out []mesh.Problem) {
	name := func(p mesh.Problem) string {
		return fmt.Sprint(p.Object.Kind, p.Object.Namespace, p.Object.Name, p.Field, p.Code, p.Severity)
	}
	has := map[string]bool{}
	for _, p := range other.Problems() {
		has[name(p)] = true
	}
	for _, p := range one.Problems() {
		if !has[name(p)] {
			out = append(out, p)
		}
	}
	return out
}

// view is what all proxies of a graph see. Proxies that see the same shelves share one list of resources.
type view struct {
	tx    *table.Tx
	graph *compile.Graph
	names [xdstype.Types]map[mesh.Shelf][]string
	sees  map[string]map[resource]*envoy.Encoded
}

// resource names a resource of a proxy.
type resource struct {
	typ  xdstype.Type
	name string
}

func newView(tx *table.Tx, g *compile.Graph) *view {
	out := &view{tx: tx, graph: g, sees: map[string]map[resource]*envoy.Encoded{}}
	for typ, tables := range g.Out.Resources {
		out.names[typ] = map[mesh.Shelf][]string{}
		for _, t := range tables {
			for k := range table.Each(tx, t) {
				out.names[typ][k.Shelf] = append(out.names[typ][k.Shelf], k.Name)
			}
		}
	}
	return out
}

// of returns the resources of a proxy, and a name that proxies with the same ones share.
func (v *view) of(id mesh.ProxyID) (string, map[resource]*envoy.Encoded) {
	stacks, _ := table.Lookup(v.tx, v.graph.Out.Attachments, id)
	key := fmt.Sprintf("%q", stacks)
	if have, is := v.sees[key]; is {
		return key, have
	}
	out := map[resource]*envoy.Encoded{}
	for typ, shelves := range stacks {
		for _, s := range shelves { // the highest is the last
			for _, name := range v.names[typ][s] {
				e, _ := v.graph.Out.Lookup(v.tx, xdstype.Type(typ), mesh.ResourceKey{Shelf: s, Name: name})
				if e.Err != nil && e.Hides {
					delete(out, resource{xdstype.Type(typ), name})
				} else {
					out[resource{xdstype.Type(typ), name}] = e
				}
			}
		}
	}
	v.sees[key] = out
	return key, out
}

// differences yields proxies that see the same in both views, with what differs for them in the second one.
func differences(before, after *view) iter.Seq2[[]mesh.ProxyID, iter.Seq[trial.Difference]] {
	type alike struct {
		router   bool
		one, two string
	}
	ids := map[alike][]mesh.ProxyID{}
	lists := map[alike][]trial.Difference{}
	for id := range table.All(before.tx, before.graph.Out.Attachments) {
		one, old := before.of(id)
		two, now := after.of(id)
		k := alike{id.IsRouter(), one, two}
		if ids[k] == nil {
			lists[k] = differing(old, now)
		}
		ids[k] = append(ids[k], id)
	}
	return func(yield func([]mesh.ProxyID, iter.Seq[trial.Difference]) bool) {
		for k, list := range lists {
			if !yield(ids[k], slices.Values(list)) {
				return
			}
		}
	}
}

func differing(old, now map[resource]*envoy.Encoded) (out []trial.Difference) {
	names := maps.Clone(old)
	maps.Copy(names, now)
	for r := range names {
		if version(old[r]) != version(now[r]) {
			out = append(out, trial.Difference{Type: r.typ, Name: r.name, Old: old[r], New: now[r]})
		}
	}
	return out
}
