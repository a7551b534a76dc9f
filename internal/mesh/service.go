package mesh

import (
	"cmp"
	"slices"
	"strings"
)

// Host is a fully qualified service name in lower case. It may be a wildcard: "*" or "*.example.com".
type Host string

// IsWildcard reports whether the host matches many names.
func (h Host) IsWildcard() bool { return strings.HasPrefix(string(h), "*") }

// Matches reports whether h, possibly a wildcard, covers the name or wildcard other.
// "*.example.com" covers "a.example.com" and "*.a.example.com", not "example.com".
func (h Host) Matches(other Host) bool {
	if h == "*" || h == other {
		return true
	}
	return strings.HasPrefix(string(h), "*.") && len(other) > len(h)-1 &&
		strings.HasSuffix(string(other), string(h[1:]))
}

// CompareWidth orders hosts that all cover one name or wildcard: the narrowest first.
func CompareWidth(a, b Host) int {
	switch {
	case a.IsWildcard() == b.IsWildcard():
		return len(b) - len(a)
	case a.IsWildcard():
		return 1
	}
	return -1
}

// Wildcards yields the wildcards that cover h, longest first, ending with "*"; h itself is not among them.
func (h Host) Wildcards() []Host {
	rest := strings.TrimPrefix(string(h), "*.")
	if rest == "*" {
		return nil
	}
	var out []Host
	for {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			return append(out, "*")
		}
		wild := Host("*" + rest[dot:])
		rest = rest[dot+1:]
		if wild != h {
			out = append(out, wild)
		}
	}
}

// Protocol is the application protocol of a port.
type Protocol uint8

// The protocols a Port may speak. Unknown means that the user set no protocol: proxies detect it where they can.
const (
	Unknown Protocol = iota
	HTTP
	HTTP2
	GRPC
	GRPCWeb
	HTTPS
	TLS
	TCP
	UDP
	Mongo
	Redis
	MySQL
	Dubbo        // Dubbo's own protocol, the second version of it
	lastProtocol = Dubbo
)

// IsProtocol reports whether a number is that of a protocol with a name.
func (p Protocol) IsProtocol() bool { return p <= lastProtocol }

var protocolNames = [...]string{
	"unknown", "HTTP", "HTTP2", "GRPC", "GRPC-WEB", "HTTPS", "TLS", "TCP", "UDP", "MONGO", "REDIS", "MYSQL", "DUBBO",
}

// String gives the name as Istio's API writes it.
func (p Protocol) String() string { return protocolNames[p] }

// IsHTTP reports whether requests on the port can be routed as HTTP without terminating TLS.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == HTTP2 || p == GRPC || p == GRPCWeb }

// MayBeHTTP reports whether traffic to the port is routed as requests. If the protocol is not configured, proxies detect it.
func (p Protocol) MayBeHTTP() bool { return p.IsHTTP() || p == Unknown }

// IsHTTP2 reports whether the port speaks HTTP/2 from the first byte.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS reports whether connections start with a TLS ClientHello whose server name can select a route.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }

// WithinTLS returns the protocol inside TLS, for a proxy that terminates TLS. A protocol without TLS is returned unchanged.
func (p Protocol) WithinTLS() Protocol {
	switch p {
	case HTTPS:
		return HTTP
	case TLS:
		return TCP
	}
	return p
}

// ServerFirstPorts returns the ports, in ascending order, of well-known protocols in which the server speaks first (SMTP, DNS, MySQL,
// MongoDB). Proxies cannot detect a protocol there: a proxy that waits for the client's first bytes would wait for ever.
func ServerFirstPorts() []uint32 { return []uint32{25, 53, 3306, 27017} }

// ParseProtocol reads a protocol as the `protocol` field of Istio's ServicePort and Port gives it, in any case. An unknown name returns
// Unknown and false.
func ParseProtocol(s string) (Protocol, bool) {
	for i, n := range protocolNames {
		if i > 0 && strings.EqualFold(n, s) {
			return Protocol(i), true
		}
	}
	return Unknown, false
}

// Resolution is how an Envoy finds the addresses behind a Service (networking.istio.io ServiceEntry.Resolution).
type Resolution uint8

// The ways of resolution.
const (
	ClientSide    Resolution = iota // STATIC: the control plane names every endpoint (EDS)
	Passthrough                     // NONE: connections go where the client sent them
	DNS                             // DNS: every address the name resolves to (STRICT_DNS)
	DNSRoundRobin                   // DNS_ROUND_ROBIN: one address at a time (LOGICAL_DNS)
	DynamicDNS                      // DYNAMIC_DNS: the name in the request or connection, which must match the host, a wildcard
)

func (r Resolution) String() string {
	return [...]string{"STATIC", "NONE", "DNS", "DNS_ROUND_ROBIN", "DYNAMIC_DNS"}[r]
}

// Port is one port of a Service.
type Port struct {
	Name     string
	Number   uint32 // the number that clients use
	Target   uint32 // the port of endpoints that set none; 0 means Number
	Protocol Protocol
}

// ServiceKey names a service as one registry knows it. Several may share a Host.
type ServiceKey struct {
	Host      Host
	Namespace string
	Registry  string // "ServiceEntry", "memory", later "Kubernetes/<cluster>", "Consul", …
	Object    string // the object's name inside the namespace if one host has several objects in one registry
}

// CompareServiceKey orders keys by host, namespace, registry, object.
func CompareServiceKey(a, b ServiceKey) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Registry, b.Registry),
		cmp.Compare(a.Object, b.Object))
}

// Service is a name with ports. Two services are the same when Equal says so.
type Service struct {
	Key        ServiceKey
	Ports      []Port   // by number
	Addresses  []string // VIPs and CIDRs that clients address, sorted as written; empty: none
	Resolution Resolution
	External   bool     // MESH_EXTERNAL: no mutual TLS is expected of it
	ExportTo   []string // namespaces that may see it; "*" everybody, "." its own; never empty (defaulted)
	Identities []string // subjectAltNames: SPIFFE ids or DNS names its endpoints may present
	Created    int64    // Unix seconds; the older of two that clash wins. 0: unknown
	Origin     ObjectRef

	// Nearest are the labels by which clients prefer endpoints, like LocalityLoadBalancerSetting.failoverPriority, if no rule sets them: an
	// endpoint that shares a label with the client is nearer.
	Nearest []string
	// Selects are the labels that its registry uses to select the workloads that serve it, in its own namespace. They also select workloads
	// that users declare. Empty: it selects none.
	Selects Labels
	// TargetNames are the names of the ports that workloads serve a port on, by the port's name: "http=serve". A workload that
	// names its ports has the number. Ports with a number for a target are left out.
	TargetNames Labels
	// OwnMachine says that clients use only endpoints on their own machine.
	OwnMachine bool
	// Accounts are service accounts that its endpoints may have in addition to their own ones, sorted.
	Accounts []string
	// Outside are the addresses at which clients outside its cluster reach the service, sorted: IPs, and names of load balancers. Clients
	// of the mesh do not use them.
	Outside []string
	// Network is set for the service of an east-west gateway: connections from other networks enter this network through it, on
	// NetworkPort. Empty: it is not such a service.
	Network     string
	NetworkPort uint32 // 0: EastWestPort
	// Nodes says that clients outside its cluster reach the service through machines of that cluster; nil: they do not.
	Nodes *NodePorts
	// Clusters are the addresses that the service has in each of several clusters, by name of the cluster. Clients of other clusters use
	// Addresses, which are the addresses in one of these clusters. Empty: all clients do.
	Clusters []ClusterAddresses
	// Dubbo is the name of the service in Dubbo requests; the zero DubboName: any.
	Dubbo DubboName
	// ClusterLocal says that clients use only the endpoints of their own cluster (MeshConfig.serviceSettings).
	ClusterLocal bool
	// RulesFrom are namespaces whose VirtualServices may set the routes for clients of the service although it is not theirs, sorted; "*":
	// all.
	RulesFrom []string
	// Pool says that it is an InferencePool: only gateways send requests to it.
	Pool bool
	// Picked says that pickers choose the endpoints of requests.
	Picked bool
}

// DubboName is the name of a Dubbo service in requests. It is comparable.
type DubboName struct {
	Interface      string // empty: unknown
	Group, Version string // empty: any
}

func (n DubboName) String() string { return n.Group + "/" + n.Interface + ":" + n.Version }

// NodePorts says through which machines of its cluster clients outside it reach a service. It is comparable.
type NodePorts struct {
	Machines Labels // the labels of these machines; empty: all machines
	Ports    Labels // the ports there, by the service's ports: "15443=31443"
	Serving  bool   // only those of these machines that run a healthy endpoint
}

func (n *NodePorts) equal(o *NodePorts) bool { return n == o || n != nil && o != nil && *n == *o }

// ClusterAddresses are a service's addresses in one cluster.
type ClusterAddresses struct {
	Cluster   string
	Addresses []string
}

func (a ClusterAddresses) equal(b ClusterAddresses) bool {
	return a.Cluster == b.Cluster && slices.Equal(a.Addresses, b.Addresses)
}

// AddressesIn are the addresses that clients of a cluster use; "" is none.
func (s *Service) AddressesIn(cluster string) []string {
	for _, c := range s.Clusters {
		if c.Cluster == cluster {
			return c.Addresses
		}
	}
	return s.Addresses
}

// AllAddresses are those of all clusters. They may repeat.
func (s *Service) AllAddresses() []string {
	if len(s.Clusters) == 0 {
		return s.Addresses
	}
	var all []string
	for _, c := range s.Clusters {
		all = append(all, c.Addresses...)
	}
	return all
}

// clusterRegistry is the prefix of registries that are Kubernetes clusters; the cluster's name follows.
const clusterRegistry = "Kubernetes/"

// RegistryOf is the registry of a Kubernetes cluster.
func RegistryOf(cluster string) string { return clusterRegistry + cluster }

// Cluster returns the Kubernetes cluster of the service's registry; empty if the registry is not a cluster.
func (k ServiceKey) Cluster() string {
	cluster, is := strings.CutPrefix(k.Registry, clusterRegistry)
	if !is {
		return ""
	}
	return cluster
}

// EastWestPort is the default port where an east-west gateway accepts connections of other networks.
const EastWestPort = 15443

// Headless reports whether a service inside the mesh has no address on purpose: clients reach its endpoints themselves.
func (s *Service) Headless() bool {
	return s.Resolution == Passthrough && !s.External && len(s.Addresses) == 0
}

// Port returns the port with that number.
func (s *Service) Port(number uint32) (Port, bool) {
	for _, p := range s.Ports {
		if p.Number == number {
			return p, true
		}
	}
	return Port{}, false
}

// Equal reports whether two services are equal in all fields, including the key.
func (s *Service) Equal(o *Service) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return s.Key == o.Key && slices.Equal(s.Ports, o.Ports) && slices.Equal(s.Addresses, o.Addresses) && s.Resolution == o.Resolution &&
		s.External == o.External && slices.Equal(s.ExportTo, o.ExportTo) &&
		slices.Equal(s.Identities, o.Identities) && s.Created == o.Created && s.Origin == o.Origin &&
		slices.Equal(s.Nearest, o.Nearest) && s.Selects == o.Selects && s.TargetNames == o.TargetNames && s.OwnMachine == o.OwnMachine &&
		slices.Equal(s.Accounts, o.Accounts) && slices.Equal(s.Outside, o.Outside) &&
		s.Network == o.Network && s.NetworkPort == o.NetworkPort && s.Nodes.equal(o.Nodes) &&
		slices.EqualFunc(s.Clusters, o.Clusters, ClusterAddresses.equal) && s.ClusterLocal == o.ClusterLocal &&
		s.Dubbo == o.Dubbo && slices.Equal(s.RulesFrom, o.RulesFrom) && s.Pool == o.Pool && s.Picked == o.Picked
}

// VisibleIn reports whether clients of a namespace may see the service. ExportTo may name it, all namespaces ("*") or the service's own
// namespace (".").
func (s *Service) VisibleIn(namespace string) bool {
	return Exported(s.ExportTo, s.Key.Namespace, namespace)
}

// Exported reports whether an exportTo list of an object in namespace home makes it visible in namespace viewer. The viewer "" means any
// namespace that no list names: it sees only what all namespaces see. An empty list means all namespaces. networking.istio.io exportTo: "."
// is the own namespace, "*" all, "~" none.
func Exported(exportTo []string, home, viewer string) bool {
	if len(exportTo) == 0 {
		return true
	}
	for _, e := range exportTo {
		switch {
		case e == "*":
			return true
		case e == "." && viewer != "" && home == viewer:
			return true
		case e == viewer && viewer != "":
			return true
		}
	}
	return false
}

// Local splits a host that FullHost makes of a name without dots: name.namespace.svc.domain. ok is false for every other host.
func (h Host) Local(domain string) (name, namespace string, ok bool) {
	local, ok := strings.CutSuffix(string(h), ".svc."+domain)
	name, namespace, two := strings.Cut(local, ".")
	if !ok || !two || h.IsWildcard() || name == "" || namespace == "" || strings.Contains(namespace, ".") {
		return "", "", false
	}
	return name, namespace, true
}

// FullHost returns the host that a name means in a namespace. A name without dots is a service of that namespace ("reviews" is
// "reviews.<namespace>.svc.<domain>"). Any other name is returned unchanged, but in lower case.
func FullHost(name, namespace, domain string) Host {
	name = strings.ToLower(name)
	if name == "*" || strings.Contains(name, ".") {
		return Host(name)
	}
	return Host(name + "." + namespace + ".svc." + domain)
}
