package mesh

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// ProxyType is the purpose of a proxy.
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

// Families are the kinds of addresses of a workload, where its proxy may listen.
type Families uint8

// The families of a proxy's addresses (node id and metadata INSTANCE_IPS).
const (
	IPv4      Families = iota // no other
	IPv6                      // no other
	DualStack                 // both
)

func (f Families) String() string { return [...]string{"IPv4", "IPv6", "dual"}[f] }

// Any returns the unspecified address, which means all addresses of a workload, and also names the listeners there. For both families it is
// that of IPv4; AlsoAny has the other.
func (f Families) Any() string { return [...]string{"0.0.0.0", "::", "0.0.0.0"}[f] }

// AlsoAny returns the unspecified addresses that Any leaves out.
func (f Families) AlsoAny() []string {
	if f == DualStack {
		return []string{"::"}
	}
	return nil
}

// Loopback returns the address where a workload reaches itself.
func (f Families) Loopback() string { return [...]string{"127.0.0.1", "::1", "127.0.0.1"}[f] }

// ProxyID names a proxy by who it proved to be and by the node id that it chose: "<namespace>/<service account>|<node id>". A proxy without
// a proven identity is named only by its node id, and so shares no name with a proxy that has one. Node ids start with a type and '~', so
// the two forms cannot be confused.
type ProxyID string

// MakeProxyID names the proxy of a node id; an empty account means that nothing was proved.
func MakeProxyID(namespace, account, node string) ProxyID {
	if account == "" {
		return ProxyID(node)
	}
	return ProxyID(namespace + "/" + account + "|" + node)
}

// Node is the node id: type~ip~id~domain.
func (id ProxyID) Node() string {
	_, node := id.parts()
	return node
}

// IsRouter reports whether the node id is a gateway's.
func (id ProxyID) IsRouter() bool { return strings.HasPrefix(id.Node(), Router.String()+"~") }

// Identity returns "<namespace>/<service account>", or an empty text if nothing was proved.
func (id ProxyID) Identity() string {
	identity, _ := id.parts()
	return identity
}

func (id ProxyID) parts() (identity, node string) {
	identity, node, proved := strings.Cut(string(id), "|")
	if !proved || strings.Contains(identity, "~") {
		return "", string(id)
	}
	return identity, node
}

// Standing says how far a proxy's claims about itself are proven. It depends only on how its stream arrived, never on the node.
type Standing uint8

// The standings of proxies.
const (
	Unproven Standing = iota // a plaintext stream from another machine: nothing is proven
	Here                     // a plaintext stream from the control plane's own machine: not proven, but no other machine can claim it
	Proven                   // a certificate or token proved its namespace and service account
)

func (s Standing) String() string { return [...]string{"unproven", "here", "proven"}[s] }

// Proxy is one connected Envoy as its node id and metadata describe it. It is comparable, so that a proxy that reconnects with the same
// data changes nothing.
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
	ServiceAccount string   // metadata SERVICE_ACCOUNT, or the proven one
	Standing       Standing // how far its claims are proven
	Version        string   // metadata ISTIO_VERSION
	Names          bool     // metadata DNS_CAPTURE: the proxy's agent resolves the names of the mesh
	AutoVIP        bool     // metadata DNS_CAPTURE and DNS_AUTO_ALLOCATE: the proxy resolves auto-allocated addresses itself
	// Discovers says that it asks for the load assignment PeersCluster (metadata ENABLE_SELF_DISCOVERY).
	Discovers bool
	// HTTP are its settings for requests: metadata HTTP10 and, if Configured is true, PROXY_CONFIG.
	HTTP       HTTPSettings
	Configured bool
	Tracing    string // its ProxyConfig.tracing, as JSON; empty: not set
	// Idle is after how long without a byte connections to the workload end: metadata IDLE_TIMEOUT; 0: Envoy's own, an hour.
	Idle     time.Duration
	Workload string   // metadata WORKLOAD_ENTRY: the WorkloadEntry of the proxy's workload, if it names one
	Mutual   bool     // it has an identity, so it can speak mutual TLS: metadata FAIRWAY_IDENTITY is not "none"
	Modules  bool     // metadata FAIRWAY_EXTENSIONS is "agent": the proxy's agent fetches Wasm modules, and serves them to its Envoy
	Metadata Metadata // all of its metadata that is text
	// Reduced says that its service account, or address, has too many variants: see Reduce.
	Reduced bool
	// Owner is the service account or, in plaintext, the network. The variants of proxies with one owner are counted together. Empty: they
	// are not counted.
	Owner string
	// Since orders the proxies of an owner: the variants of the earliest count.
	Since uint64
}

// Pod returns the key that a Kubernetes cluster has for the proxy's workload according to the proxy. The workload need not exist.
func (p Proxy) Pod() WorkloadKey { return WorkloadKey{"Kubernetes/" + p.Cluster, p.Namespace, p.Name} }

// mostTracing is the longest tracing configuration of a proxy, in bytes.
const mostTracing = 4 << 10

// Configure has the proxy be as its ProxyConfig says, in its JSON form. An error names the field.
func (p *Proxy) Configure(proxyConfig map[string]any) (err error) {
	p.Configured = true
	if p.HTTP, err = ReadHTTPSettings(proxyConfig); err != nil {
		return err
	}
	said, ok := proxyConfig["tracing"].(map[string]any)
	if !ok || len(said) == 0 {
		return nil
	}
	text, err := json.Marshal(said) // of equal words equal texts: keys are sorted
	if err != nil || len(text) > mostTracing {
		return &FieldError{Field: "tracing", Want: fmt.Sprintf("at most %d bytes of JSON", mostTracing)}
	}
	p.Tracing = string(text)
	return nil
}

// Families returns the families of all its addresses except link-local ones. Those are not served, and machines without IPv6 have them too.
func (p Proxy) Families() Families {
	var four, six bool
	for text := range strings.SplitSeq(p.IPs, ",") {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.IsLinkLocalUnicast() {
			continue
		}
		four = four || ip.Unmap().Is4()
		six = six || !ip.Unmap().Is4()
	}
	switch {
	case four && six:
		return DualStack
	case six:
		return IPv6
	}
	return IPv4
}

// SelfDiscovery is the metadata with which a proxy says that its Envoy compares zones with those of its workload's own peers
// (ISTIO_META_ENABLE_SELF_DISCOVERY; destination_rule.proto, ZoneAwareLoadBalancerSetting).
const SelfDiscovery = "ENABLE_SELF_DISCOVERY"

// PeersCluster is the cluster of the workload's own peers, and its load assignment, as named in bootstraps
// (ClusterManager.local_cluster_name).
const PeersCluster = "local_cluster"
