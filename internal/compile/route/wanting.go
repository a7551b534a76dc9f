package route

import (
	"cmp"
	"strings"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file finds the listeners that need more filters than others, because a virtual host in their route configuration does: its routes
// lead to destinations of resolution DYNAMIC_DNS, have filters of their own, or ask a picker.

// Place is a route configuration that proxies of a layer have.
type Place struct {
	Layer mesh.Layer
	Route string
}

// ComparePlace orders by layer, then name.
func ComparePlace(a, b Place) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Route, b.Route))
}

// Want says that a route configuration needs one thing of the listeners that use it.
type Want struct {
	Place
	What envoy.Wants // one element
}

func compareWant(a, b Want) int {
	return cmp.Or(ComparePlace(a.Place, b.Place), cmp.Compare(a.What, b.What))
}

// allWants are the elements that a set of wants may have.
var allWants = [...]envoy.Wants{envoy.WantsNames, envoy.WantsFilters, envoy.WantsPicker}

// Wanting declares the table of what the route configurations with these virtual hosts need. One more host that needs the same, or one
// less, changes nothing while there is another.
func Wanting(hosts *table.Table[mesh.ResourceKey, *envoy.Encoded], name string) *table.Table[Want, struct{}] {
	return table.Keys(hosts, name, compareWant, func(k mesh.ResourceKey, e *envoy.Encoded) (out []Want) {
		if e.Wants == 0 {
			return nil
		}
		at := Place{k.Shelf.Layer, k.Name[:strings.LastIndexByte(k.Name, '/')]}
		for _, what := range allWants {
			if e.Wants&what != 0 {
				out = append(out, Want{at, what})
			}
		}
		return out
	})
}

func (t *Tables) declareWanting() {
	t.wanting = table.Union("route/wanting", compareWant, table.Same[struct{}], nil,
		table.Whole(Wanting(t.VirtualHosts, "route/wanting by name")), table.Whole(Wanting(t.AliasHosts, "route/wanting by alias")))
	t.Special = table.Keys(t.wanting, "route/special", ComparePlace, func(w Want, _ struct{}) []Place { return []Place{w.Place} })
	t.proxyWants = table.Keys(t.wanting, "route/wanting of http proxies", cmp.Compare[envoy.Wants],
		func(w Want, _ struct{}) []envoy.Wants {
			if w.Route != HTTPProxy {
				return nil
			}
			return []envoy.Wants{w.What}
		})
}

// ProxyFilters reports whether some layer's routes of sidecars that are HTTP proxies have filters of their own. All of these sidecars have
// one listener in common.
func (t *Tables) ProxyFilters(r *table.Reader) bool {
	return table.Has(r, t.proxyWants, envoy.WantsFilters)
}

// Wants returns what a route configuration of a layer needs of its listeners.
func (t *Tables) Wants(r *table.Reader, l mesh.Layer, name string) (out envoy.Wants) {
	layers := []mesh.Layer{l}
	if l.Kind == mesh.NamespaceLayer {
		layers = append(layers, mesh.Public)
	}
	for _, l := range layers {
		at := Place{l, name}
		if !table.Has(r, t.Special, at) {
			continue
		}
		for _, what := range allWants {
			if table.Has(r, t.wanting, Want{at, what}) {
				out |= what
			}
		}
	}
	return out
}
