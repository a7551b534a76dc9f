package policy

import (
	"fairway/internal/compile/demand"
	"fairway/internal/compile/vouch"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// OfGateways are the policies that hold for gateways.
var OfGateways = demand.NewTrait("policies", func(s Set) string {
	if s == "" {
		return ""
	}
	return "under" + s.String()
})

// Sources say which policies hold for gateways.
func (t *Tables) Sources() []demand.Source {
	return []demand.Source{demand.From(OfGateways, func(r *table.Reader, p vouch.Proxy) Set {
		if p.Type != mesh.Router {
			return ""
		}
		return t.OfProxy(r, p)
	}).Chosen()}
}
