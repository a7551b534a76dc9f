package admin

import (
	"cmp"
	"net/http"
	"slices"

	"fairway/internal/admin/page"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// workloadz shows what agents report, and of which WorkloadEntries. A report that counts for none is listed too: that
// is what somebody looks for.
func (p *Pages) workloadz(w http.ResponseWriter, r *http.Request) {
	type listed struct {
		id     mesh.ProxyID
		report mesh.HealthReport
	}
	var reports []listed
	var entries []*config.Object
	p.Graph.Store.Read(func(tx *table.Tx) {
		for id, report := range table.Each(tx, p.Graph.In.Health.Table) {
			if viewerOf(r).sees(report.Proxy.Namespace) {
				reports = append(reports, listed{id, report})
			}
		}
		for _, o := range table.Each(tx, p.Graph.In.WorkloadEntries) {
			entries = append(entries, o)
		}
	})
	slices.SortFunc(reports, func(a, b listed) int { return cmp.Compare(a.id, b.id) })
	slices.SortFunc(entries, func(a, b *config.Object) int { return config.CompareKey(a.Key, b.Key) })
	out := []page.WorkloadHealth{}
	for _, l := range reports {
		line := page.WorkloadHealth{
			ProxyID:  l.id.Node(),
			Identity: l.id.Identity(),
			Healthy:  l.report.Healthy,
			Detail:   l.report.Detail,
			Entries:  []string{},
		}
		for _, o := range entries {
			if registry.SpeaksFor(l.report, o) {
				line.Entries = append(line.Entries, o.Namespace+"/"+o.Name)
			}
		}
		out = append(out, line)
	}
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
