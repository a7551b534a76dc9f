package admin

import (
	"bufio"
	"encoding/json"
	"net/http"

	"fairway/internal/admin/targets"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// sd lists agents for Prometheus' http_sd_configs: those beside workloads that are not pods of a cluster that is read, because Prometheus
// finds pods by itself; with ?pods=true all. It looks at connected proxies alone, and writes one target at a time.
func (p *Pages) sd(w http.ResponseWriter, r *http.Request) {
	v, pods := viewerOf(r), r.URL.Query().Get("pods") == "true"
	var all func(func(mesh.ProxyID, mesh.Proxy) bool)
	p.Graph.Store.Read(func(tx *table.Tx) {
		all = table.Snapshot(tx, p.Graph.In.Proxies.Table, func(_ mesh.ProxyID, proxy mesh.Proxy) bool {
			if !v.sees(proxy.Namespace) {
				return false
			}
			_, pod := table.Lookup(tx, p.Graph.In.Workloads, proxy.Pod())
			return pods || !pod
		})
	})
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	before := "[\n"
	for _, proxy := range all {
		if t, ok := targets.Of(proxy); ok {
			text, err := json.Marshal(t)
			if err != nil {
				continue // texts always can
			}
			_, _ = out.WriteString(before)
			_, _ = out.Write(text)
			before = ",\n"
		}
	}
	if before == "[\n" {
		_, _ = out.WriteString("[")
	}
	_, _ = out.WriteString("]\n")
	_ = out.Flush() // a scraper that has left is not an error
}
