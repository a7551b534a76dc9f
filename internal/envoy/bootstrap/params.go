package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairway/internal/mesh"
)

// Params holds everything that a bootstrap depends on.
type Params struct {
	Node      Node
	Discovery HostPort // plaintext xDS server
	// Others are further xDS servers that serve the same.
	Others []HostPort
	// DiscoverySocket is the unix socket of an xDS server on this machine; if it is set, Discovery is not used.
	DiscoverySocket string
	// SecretsSocket is the unix socket of a server of certificates and keys (SDS), which configuration may name as
	// cluster SecretsCluster; empty: there is none, and a cluster that names it never finishes warming.
	SecretsSocket string
	// ExtensionsSocket is the unix socket of a server that serves filters and fetches their Wasm modules. Configuration may name it as
	// cluster extension.AgentCluster. Empty: there is no such server, and the node's metadata shows this to the control plane.
	ExtensionsSocket string
	// Token is what Envoy sends to all three sockets in TokenHeader; empty: nothing.
	Token string
	Admin HostPort // an IP address: Envoy does not resolve names here
	// AdminSocket is the unix socket that the administration listens on instead of a port; Admin is not used then. AdminMoved is the path
	// where clients find that socket, because the program that starts Envoy moves it there. Empty: AdminSocket itself.
	AdminSocket, AdminMoved string
	// DrainFile is a file that another program writes: 1.0 if connections without requests should be closed, and 0.0 before that. Empty:
	// such connections stay as long as they may.
	DrainFile string
	// Prometheus is the address that serves /stats/prometheus without the rest of the administration; a zero port: none.
	Prometheus HostPort
	// Ready is the address that serves /healthz/ready to other machines; Status answers the requests. A zero port: none.
	Ready HostPort
	// Status is the agent's own port on this machine. It is needed if Ready is set.
	Status HostPort
	// Stats adds to the statistics that are always kept. The zero value adds none.
	Stats StatsMatcher
	// ConnectTimeout bounds one connection attempt to Discovery; 0 means one second.
	ConnectTimeout time.Duration
	// Runtime adds values to the static runtime layer.
	Runtime map[string]string
	// Connections is the maximum number of concurrent connections, not counting those to Prometheus and Ready; 0: as many as the system
	// allows.
	Connections uint32
}

// Discoveries returns the addresses of all xDS servers.
func (p Params) Discoveries() []string {
	out := []string{p.Discovery.String()}
	for _, o := range p.Others {
		out = append(out, o.String())
	}
	return out
}

// Node identifies a proxy to the control plane.
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

// adminAt returns the path where the administration is reached.
func (p Params) adminAt() string {
	if p.AdminMoved != "" {
		return p.AdminMoved
	}
	return p.AdminSocket
}
