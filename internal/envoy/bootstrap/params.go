package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairway/internal/mesh"
)

// Params is all that a bootstrap depends on.
type Params struct {
	Node      Node
	Discovery HostPort // plaintext xDS server
	// DiscoverySocket is the unix socket of an xDS server on this machine; where it is set, Discovery is not used.
	DiscoverySocket string
	// SecretsSocket is the unix socket of a server of certificates and keys (SDS), which configuration may name as
	// cluster SecretsCluster; empty: there is none, and a cluster that names it never finishes warming.
	SecretsSocket string
	// ExtensionsSocket is the unix socket of a server of filters whose Wasm modules somebody fetches, which configuration may name as
	// cluster extension.AgentCluster; empty: there is none, and the control plane is told so.
	ExtensionsSocket string
	// Token is what Envoy shows at all three sockets, under TokenHeader; empty: nothing.
	Token string
	Admin HostPort // an IP address: Envoy does not resolve names here
	// AdminSocket is the unix socket that the administration listens on, where it is to be no port; Admin is not used
	// then. AdminMoved is the path at which that socket is reached: whoever starts the Envoy moves it there. Empty:
	// AdminSocket itself.
	AdminSocket, AdminMoved string
	// DrainFile is a file in which somebody writes 1.0 when connections without requests are to go, and 0.0 before
	// that; empty: they stay for as long as they may.
	DrainFile string
	// Prometheus is where /stats/prometheus is served without the rest of the administration; a zero port: nowhere.
	Prometheus HostPort
	// Ready is where /healthz/ready is served to others, answered at Status; a zero port: nowhere.
	Ready HostPort
	// Status is the agent's own port on this machine. It is needed where Ready is set.
	Status HostPort
	// Stats adds to the statistics that exist. Of the zero value there are only those that are always kept.
	Stats StatsMatcher
	// ConnectTimeout bounds one connection attempt to Discovery; 0 means one second.
	ConnectTimeout time.Duration
	// Runtime adds values to the static runtime layer.
	Runtime map[string]string
	// Connections is how many Envoy takes at once, but for those to Prometheus and Ready; 0: as many as the system lets it.
	Connections uint32
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

// StatsMatcher names statistics to keep, by prefix, suffix or regular expression (RE2, whole name), beside those that
// are always kept: of the server, the cluster and listener managers, the xDS connection, and the mesh's own metrics. It
// is Istio's ProxyConfig.proxyStatsMatcher. An Envoy has a hundred statistics for each cluster: with a thousand
// clusters, keeping them all triples the time until it serves.
type StatsMatcher struct {
	Prefixes, Suffixes, Regexps []string
}

// Everything, among a StatsMatcher's Regexps, keeps all statistics there are.
const Everything = ".*"

func (m StatsMatcher) keepsAll() bool { return slices.Contains(m.Regexps, Everything) }

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

// adminAt is where the administration is reached.
func (p Params) adminAt() string {
	if p.AdminMoved != "" {
		return p.AdminMoved
	}
	return p.AdminSocket
}
