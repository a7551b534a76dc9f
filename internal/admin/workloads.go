package admin

import (
	"iter"
	"net/http"

	"fairway/internal/admin/page"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// workloadz shows the agents' reports, and the WorkloadEntries of each. It also lists reports that count for no entry, because users look
// for these.
func (p *Pages) workloadz(w http.ResponseWriter, r *http.Request) {
	var reports iter.Seq2[mesh.ProxyID, mesh.HealthReport]
	var entries iter.Seq2[config.Key, *config.Object]
	p.Graph.Store.Read(func(tx *table.Tx) {
		reports = table.Snapshot(tx, p.Graph.In.Health.Table, func(_ mesh.ProxyID, report mesh.HealthReport) bool {
			return viewerOf(r).sees(report.Proxy.Namespace)
		})
		entries = table.Snapshot(tx, p.Graph.In.WorkloadEntries, nil)
	})
	out := []page.WorkloadHealth{}
	for id, report := range reports {
		line := page.WorkloadHealth{
			ProxyID:  id.Node(),
			Identity: id.Identity(),
			Healthy:  report.Healthy,
			Detail:   report.Detail,
			Entries:  []string{},
		}
		for k, o := range entries {
			if registry.SpeaksFor(report, o) {
				line.Entries = append(line.Entries, k.Namespace+"/"+k.Name)
			}
		}
		out = append(out, line)
	}
	writeJSON(w, out)
}

// certz shows the credentials with which proxies authenticated.
func (p *Pages) certz(w http.ResponseWriter, r *http.Request) {
	out := []page.ProxyCertificate{}
	for _, c := range p.Shown() {
		if viewerOf(r).sees(c.Namespace) {
			out = append(out, c)
		}
	}
	writeJSON(w, out)
}
