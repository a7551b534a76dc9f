package admin

import (
	"net/http"

	"fairway/internal/admin/page"
	"fairway/internal/compile/registry"
	"fairway/internal/table"
)

// workloadz shows what agents report, and of which WorkloadEntries. A report that counts for none is listed too: that
// is what somebody looks for.
func (p *Pages) workloadz(w http.ResponseWriter, r *http.Request) {
	out := []page.WorkloadHealth{}
	p.Graph.Store.Read(func(tx *table.Tx) {
		for id, report := range table.All(tx, p.Graph.In.Health.Table) {
			if !viewerOf(r).sees(report.Proxy.Namespace) {
				continue
			}
			line := page.WorkloadHealth{
				ProxyID:  id.Node(),
				Identity: id.Identity(),
				Healthy:  report.Healthy,
				Detail:   report.Detail,
				Entries:  []string{},
			}
			for k, o := range table.All(tx, p.Graph.In.WorkloadEntries) {
				if registry.SpeaksFor(report, o) {
					line.Entries = append(line.Entries, k.Namespace+"/"+k.Name)
				}
			}
			out = append(out, line)
		}
	})
	writeJSON(w, out)
}

// certz shows what proxies proved themselves with.
func (p *Pages) certz(w http.ResponseWriter, r *http.Request) {
	out := []page.ProxyCertificate{}
	for _, c := range p.Shown() {
		if viewerOf(r).sees(c.Namespace) {
			out = append(out, c)
		}
	}
	writeJSON(w, out)
}
