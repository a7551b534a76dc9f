package bootstrap

import (
	"fmt"
	"net/netip"
	"time"

	"fairway/internal/mesh"
)

// Params is all that a bootstrap depends on.
type Params struct {
	Node      Node
	Discovery HostPort // plaintext xDS server
	// DiscoverySocket is the unix socket of an xDS server on this machine; where it is set, Discovery is not used.
	DiscoverySocket string
	// SecretsSocket is the unix socket of a server of certificates and keys (SDS), which configuration may name as cluster SecretsCluster; empty: there is none,
	// and a cluster that names it never finishes warming.
	SecretsSocket string
	Admin         HostPort // an IP address: Envoy does not resolve names here
	// Prometheus is where /stats/prometheus is served without the rest of the administration; a zero port: nowhere.
	Prometheus HostPort
	// Ready is where /healthz/ready is served to others, answered at Status; a zero port: nowhere.
	Ready HostPort
	// Status is the agent's own port on this machine. It is needed where Ready is set.
	Status HostPort
	// Stats limits which statistics exist. The zero value keeps all of them.
	Stats StatsMatcher
	// ConnectTimeout bounds one connection attempt to Discovery; 0 means one second.
	ConnectTimeout time.Duration
	// Runtime adds values to the static runtime layer.
	Runtime map[string]string
}

// Node says who a proxy is, to the control plane.
type Node struct {
	Type mesh.ProxyType
	IP   string
	// Name and Namespace are the workload's; together the third part of the node id.
	Name, Namespace string
	Domain          string // DNS domain of short names: "default.svc.cluster.local"
	Cluster         string // the service that the proxy belongs to: "reviews.default"
	Metadata        map[string]any
	Locality        mesh.Locality
}

// ID is the node id as istio-proxy forms it: type~ip~name.namespace~domain.
func (n Node) ID() string {
	return fmt.Sprintf("%s~%s~%s.%s~%s", n.Type, n.IP, n.Name, n.Namespace, n.Domain)
}

// StatsMatcher names the statistics to keep, by prefix, suffix or regular expression (RE2, whole name).
// It is Istio's ProxyConfig.proxyStatsMatcher; what an operator always needs (server, cluster_manager, listener_manager and
// the xDS connection) is kept beside it.
type StatsMatcher struct {
	Prefixes, Suffixes, Regexps []string
}

func (m StatsMatcher) keepsAll() bool {
	return len(m.Prefixes)+len(m.Suffixes)+len(m.Regexps) == 0
}

// HostPort is an address that can be connected to or listened on.
type HostPort struct {
	Host string // an IP address or a DNS name
	Port uint16
}

func (a HostPort) String() string {
	if ip, err := netip.ParseAddr(a.Host); err == nil {
		return netip.AddrPortFrom(ip, a.Port).String()
	}
	return fmt.Sprintf("%s:%d", a.Host, a.Port)
}

func (a HostPort) isIP() bool {
	_, err := netip.ParseAddr(a.Host)
	return err == nil
}
