package mesh

// ProxyType is what a proxy is for.
type ProxyType uint8

// The types of proxy: the first part of a node id.
const (
	Sidecar ProxyType = iota // "sidecar": beside a workload
	Router                   // "router": a gateway
)

func (t ProxyType) String() string { return [...]string{"sidecar", "router"}[t] }

// Interception is how traffic reaches a sidecar.
type Interception uint8

// The modes: node metadata INTERCEPTION_MODE.
const (
	Redirect Interception = iota // iptables REDIRECT to 15001 and 15006; the default
	TProxy
	None // nothing is intercepted: listeners bind the ports they serve
)

func (i Interception) String() string { return [...]string{"REDIRECT", "TPROXY", "NONE"}[i] }

// ProxyID is the whole node id: type~ip~id~domain.
type ProxyID string

// Proxy is one connected Envoy as its node id and metadata describe it. It is comparable,
// so that a reconnecting proxy that says the same of itself changes nothing.
type Proxy struct {
	ID             ProxyID
	Type           ProxyType
	IP             string // from the node id
	Name           string // id part up to the last '.': the pod's or machine's name
	Namespace      string // metadata NAMESPACE, else the id part after the last '.'
	DNSDomain      string // the fourth part: "default.svc.cluster.local"
	IPs            string // all addresses, comma separated: metadata INSTANCE_IPS, else IP
	Labels         Labels // metadata LABELS
	Cluster        string // metadata CLUSTER_ID
	Network        string // metadata NETWORK
	Locality       Locality
	Interception   Interception
	ServiceAccount string
	Version        string // metadata ISTIO_VERSION
	Names          bool   // metadata DNS_CAPTURE: the proxy's agent resolves the names of the mesh
	AutoVIP        bool   // metadata DNS_CAPTURE and DNS_AUTO_ALLOCATE: the proxy resolves auto-allocated addresses itself
	HTTP10         bool   // metadata HTTP10
	Workload       string // metadata WORKLOAD_ENTRY: the WorkloadEntry that the proxy stands for, where it says so
	Mutual         bool   // it has an identity, so it can speak mutual TLS: metadata FAIRWAY_IDENTITY is not "none"
}
