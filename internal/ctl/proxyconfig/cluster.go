package proxyconfig

import (
	"strings"

	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
)

var clusterHeader = []string{"SERVICE FQDN", "PORT", "SUBSET", "DIRECTION", "TYPE", "DESTINATION RULE"}

func clusterRows(f *filter, m message) [][]string {
	kind := text(m.body, "type")
	if extension := text(object(m.body, "clusterType"), "name"); kind == "" && extension != "" {
		kind = extension
	}
	if kind == "" {
		kind = "STATIC"
	}
	rule := ruleOf(m.body)
	direction, port, subset, host, ok := mesh.ClusterParts(m.name)
	switch {
	case !ok:
		if f.port != 0 || f.subset != "" || f.direction != "" || !strings.Contains(m.name, f.fqdn) {
			return nil
		}
		return [][]string{{m.name, "-", "-", "-", kind, rule}}
	case !f.hasPort(port), f.subset != "" && subset != f.subset, !strings.Contains(host, f.fqdn),
		f.direction != "" && !strings.EqualFold(direction, f.direction):
		return nil
	}
	return [][]string{{output.OrDash(host), port, output.OrDash(subset), direction, kind, rule}}
}
