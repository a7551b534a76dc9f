// Package targets makes what Prometheus' HTTP service discovery reads out of connected proxies: where each agent's merged metrics are, and
// labels for their series. Proxies describe themselves, so every word is bounded, and an address counts only if it can be scraped safely.
// It must not know pages. Start reading at Of.
package targets

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// Target is a target group of Prometheus' http_sd_config.
type Target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Of returns the target of a proxy. ok is false if the agent serves no metrics, if the proxy has not proven its identity, or if other
// machines cannot reach its address: Prometheus must not request an address that a proxy only claims.
func Of(p mesh.Proxy) (t Target, ok bool) {
	ip, err := netip.ParseAddr(p.IP)
	if err != nil || p.Standing == mesh.Unproven || p.Standing == mesh.Proven && mesh.ReachOfIP(ip) != mesh.Anywhere || ip.IsMulticast() {
		return Target{}, false
	}
	port, ok := portOf(p)
	if !ok {
		return Target{}, false
	}
	t = Target{[]string{net.JoinHostPort(ip.WithZone("").String(), port)}, map[string]string{"__metrics_path__": "/stats/prometheus"}}
	for _, l := range []struct{ name, value string }{
		{"namespace", p.Namespace},
		{"pod", p.Name},
		{"__meta_fairway_type", p.Type.String()},
		{"__meta_fairway_service_account", p.ServiceAccount},
		{"__meta_fairway_cluster", p.Cluster},
		{"__meta_fairway_network", p.Network},
		{"__meta_fairway_locality", p.Locality.String()},
		{"__meta_fairway_version", p.Version},
		{"__meta_fairway_workload_entry", p.Workload},
	} {
		t.add(l.name, l.value)
	}
	for name, value := range p.Labels.Map() {
		t.add("__meta_fairway_label_"+sanitized(name), value)
		if name == "app" {
			t.add(name, value)
		}
	}
	return t, true
}

// PortKey is the metadata by which an agent says that its page of metrics is at another port than usual; "0": it has none.
const PortKey = "FAIRWAY_STATUS_PORT"

const usualPort = "15020"

// portOf returns the port of an agent's page. Low ports are not for agents, which are not root.
func portOf(p mesh.Proxy) (string, bool) {
	said, ok := p.Metadata.Get(PortKey)
	if !ok {
		return usualPort, true
	}
	n, err := strconv.ParseUint(said, 10, 16)
	return strconv.FormatUint(n, 10), err == nil && n >= 1024
}

// longest is how many bytes a value may have.
const longest = 253

// add adds a label. Empty values, and values that are long or not printable, are left out.
func (t *Target) add(name, value string) {
	if value != "" && printable.Is(value, longest) {
		t.Labels[name] = value
	}
}

// sanitized makes the name of a label of Prometheus out of a label of a workload, as Prometheus does for Kubernetes.
func sanitized(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}
