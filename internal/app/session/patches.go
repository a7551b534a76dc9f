package session

import (
	"maps"
	"slices"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xdstype"
)

// PatchesFail handles an agent's report of patches that its Envoy cannot run with. They count as rejected by this proxy, and become
// problems of the EnvoyFilter objects until these change. The report replaces the agent's previous one.
func (p *Register) PatchesFail(r xds.Report) {
	p.fail(r, xdstype.PatchURL, "its Envoy cannot run with it, and runs without until it changes: ")
}

// ModulesFail handles an agent's report of missing Wasm modules. They become problems of the objects that name these modules.
func (p *Register) ModulesFail(r xds.Report) {
	p.fail(r, xdstype.ModuleURL, "its agent has not got the module, and tries again: ")
}

// fail replaces an agent's previous report about resources of a type (a type URL).
func (p *Register) fail(r xds.Report, typ, what string) {
	p.refuses(r.Proxy, func(id mesh.ProxyID) {
		failing := map[string]string{}
		if r.Failed {
			failing = bootstrap.DecodePatchReport(r.Detail)
		}
		p.graph.Store.Together(func() {
			p.graph.Retract(typ, id)
			for _, name := range slices.Sorted(maps.Keys(failing)) {
				p.graph.Reject(typ, []string{name}, id, what+failing[name])
			}
		})
	})
}
