package scope

import (
	"cmp"

	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file has hosts that are other names for hosts (Services of type ExternalName), as a layer sees them. As in Istio since its release
// 1.21, such a name is only an alias if the host behind it is known.

// Linked declares the layers that have a row of Views of a link's host, by the link's alias. Its cost grows with the links and with the
// layers that may see their hosts; other hosts cost nothing.
func (t *Tables) Linked(links *table.Table[registry.Link, struct{}], name string) *table.Table[Key, struct{}] {
	byHost := table.Index(links, name+"/by host", cmp.Compare[mesh.Host], func(l registry.Link, _ struct{}) []mesh.Host {
		return []mesh.Host{l.Host}
	})
	hosts := table.Derive(byHost, name+"/hosts", compareHostKey, (*host).equal,
		func(r *table.Reader, name mesh.Host, _ table.Rows[registry.Link, struct{}], emit func(hostKey, *host)) {
			for _, k := range [...]hostKey{{name, false}, {name, true}} {
				if h, ok := table.Get(r, t.hosts, k); ok {
					emit(k, h)
				}
			}
		})
	// A row for each host of an alias: a layer may see several of them.
	type pair struct {
		Key
		by hostKey
	}
	pairs := table.Derive(t.byLayer(hosts, name+"/hosts by layer"), name+"/pairs", func(a, b pair) int {
		return cmp.Or(CompareKey(a.Key, b.Key), compareHostKey(a.by, b.by))
	}, table.Same[struct{}],
		func(r *table.Reader, k table.Pair[hostKey, mesh.Layer], _ table.Both[*host, *reach], emit func(pair, struct{})) {
			if !table.Has(r, t.Views, Key{k.Right, k.Left.Host}) {
				return
			}
			rows, _ := table.Get(r, byHost, k.Left.Host)
			var last mesh.Host
			for l := range rows.All() {
				if l.Alias.Host != last { // sorted by it; several namespaces may declare it
					emit(pair{Key{k.Right, l.Alias.Host}, k.Left}, struct{}{})
				}
				last = l.Alias.Host
			}
		})
	return table.Keys(pairs, name, CompareKey, func(p pair, _ struct{}) []Key { return []Key{p.Key} })
}

// Concrete follows an alias in a layer, through further aliases, and returns the last host and the layer's view of it. nil: the host is no
// alias, leads to nothing that the layer sees, or the names go round in a circle.
func (t *Tables) Concrete(r *table.Reader, l mesh.Layer, alias mesh.Host) (mesh.Host, *HostView) {
	return t.ConcreteOf(r, l, alias, t.View(r, l, alias))
}

// ConcreteOf is Concrete of a host with a known view in the layer. If the host is not an alias, it reads nothing more.
func (t *Tables) ConcreteOf(r *table.Reader, l mesh.Layer, alias mesh.Host, seen *HostView) (mesh.Host, *HostView) {
	at := alias
	for range registry.MostAliases + 1 {
		if seen == nil || seen.Service == nil || seen.Destination {
			return "", nil
		}
		to := t.reg.Alias(r, seen.Service)
		next := (*HostView)(nil)
		if to != "" {
			next = t.View(r, l, to)
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
