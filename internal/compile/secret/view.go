package secret

import (
	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// holder is the identity of proxies that decides about Secrets.
var holder = demand.Derived("holder", demand.Identity.At, func(h demand.Holder) string {
	switch {
	case h.Here:
		return "@here"
	case h.Account == "":
		return ""
	}
	return "/" + h.Account
})

// byHolder are the views of the secrets that resources of a layer name. Only layers of gateways, and of rules that select proxies, have
// secrets. A proxy that proved no identity gets no view, except on the control plane's own machine.
var byHolder = demand.Kind{
	Traits: []demand.AnyTrait{holder}, Over: []demand.AnyTrait{holder},
	On: func(_ demand.Placement, l mesh.Layer) bool { return l.Kind == mesh.GatewayLayer || l.Clients != "" },
}

// Use is a kind of resources that name secrets.
type Use string

// The kinds of resources that name secrets.
const (
	ByListeners Use = "listeners" // of gateways
	ByClusters  Use = "clusters"
)

// shelf returns the shelf of the secrets that resources of a kind name, for a holder.
func (by Use) shelf(v demand.View) mesh.Shelf {
	s := v.Shelf()
	s.Part = string(by) + s.Part
	return s
}
