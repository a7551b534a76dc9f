package session

import (
	"maps"
	"slices"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xdstype"
)

// PatchesFail takes an agent's word on which patches its Envoy cannot run with: they are refusals of this proxy's, and
// become problems of the EnvoyFilter objects until these change. What it said before counts no more.
func (p *Register) PatchesFail(r xds.Report) {
	p.refuses(r.Proxy, func(id mesh.ProxyID) {
		failing := map[string]string{}
		if r.Failed {
			failing = bootstrap.DecodePatchReport(r.Detail)
		}
		p.graph.Store.Together(func() {
			p.graph.Retract(xdstype.PatchURL, id)
			for _, name := range slices.Sorted(maps.Keys(failing)) {
				p.graph.Reject(
					xdstype.PatchURL,
					[]string{name},
					id,
					"its Envoy cannot run with it, and runs without until it changes: "+failing[name],
				)
			}
		})
	})
}
