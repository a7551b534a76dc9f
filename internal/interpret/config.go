package interpret

import (
	"fmt"
	"net/netip"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Config holds the resources of a proxy by name. Any of them may be missing.
type Config struct {
	Listeners map[string]*listenerv3.Listener
	Routes    map[string]*routev3.RouteConfiguration
	// VirtualHosts are resources of their own. Their names are "<route configuration>/<virtual host>".
	VirtualHosts    map[string]*routev3.VirtualHost
	Clusters        map[string]*clusterv3.Cluster
	LoadAssignments map[string]*endpointv3.ClusterLoadAssignment
	// FindCluster and FindLoadAssignment return those that are missing above, because decoding all of them takes long; nil: there are no
	// others.
	FindCluster        func(name string) *clusterv3.Cluster
	FindLoadAssignment func(name string) *endpointv3.ClusterLoadAssignment
}

// cluster returns a cluster; nil: the proxy does not have it.
func (c Config) cluster(name string) *clusterv3.Cluster {
	if out := c.Clusters[name]; out != nil || c.FindCluster == nil {
		return out
	}
	return c.FindCluster(name)
}

// loadAssignment returns a load assignment; nil: the proxy does not have it.
func (c Config) loadAssignment(name string) *endpointv3.ClusterLoadAssignment {
	if out := c.LoadAssignments[name]; out != nil || c.FindLoadAssignment == nil {
		return out
	}
	return c.FindLoadAssignment(name)
}

// Direction is the direction of a call, seen from the workload beside the proxy.
type Direction uint8

// The directions. A call to a gateway is Direct: the client connects to a port of the proxy itself.
const (
	Direct Direction = iota
	Outbound
	Inbound
)

// Request is a request, or a connection, and the place where it reaches the proxy.
type Request struct {
	Direction Direction
	// Listener is the name of the listener that accepts the connection; empty: it is found by Destination.
	Listener string
	// Destination is where the client connects to. If its address is missing, it is found by Host and Port; if no port is named, it is the
	// only one that the host has, else 80.
	Destination netip.AddrPort
	Host        string
	Port        uint16
	// Domain completes short names of hosts, with its parents, as the workload's resolver does: "shop.svc.cluster.local". Empty: a name
	// may be the beginning of a host's.
	Domain string
	Source netip.AddrPort

	TLS *TLS // nil: plaintext
	// Protocol is what a plaintext client speaks: "http/1.1" (the default), "http/1.0", "h2c", or "tcp" for anything else.
	Protocol string

	Method    string // GET when empty
	Authority string // Host, and Port unless it is 80, when empty
	Path      string // with query; "/" when empty
	Headers   map[string][]string

	// Tokens are the valid tokens of the request. Signatures are not checked.
	Tokens []Token
	// Metadata is dynamic metadata by filter that the request has already.
	Metadata map[string]map[string]any
}

// TLS is the TLS of a client.
type TLS struct {
	ServerName string
	ALPN       []string
	// Certificate reports whether the client shows a certificate. The server is assumed to trust its authority.
	Certificate bool
	// URIs and DNSNames are names in that certificate, such as spiffe://cluster.local/ns/shop/sa/web.
	URIs, DNSNames []string
}

// Token is a JSON Web Token of a request.
type Token struct {
	Claims map[string]any
	// Header, Param or Cookie is where the token is; all empty: in the header Authorization, after "Bearer ".
	Header, Param, Cookie string
	// Invalid is why the token does not verify, such as "expired"; empty: it verifies, if its issuer and audience are accepted.
	Invalid string
}

// Bounds on a request.
const (
	mostHeaders = 1000
	mostText    = 64 << 10
)

// check returns an error if the request is larger than the interpreter accepts.
func (r Request) check() error {
	for _, text := range []struct{ name, value string }{
		{"method", r.Method}, {"authority", r.Authority}, {"path", r.Path}, {"host", r.Host}, {"protocol", r.Protocol},
	} {
		if len(text.value) > mostText {
			return fmt.Errorf("the request's %s has %d bytes, at most %d are accepted", text.name, len(text.value), mostText)
		}
	}
	size, count := 0, 0
	for name, values := range r.Headers {
		for _, value := range values {
			size, count = size+len(name)+len(value), count+1
		}
	}
	if count > mostHeaders || size > mostText {
		return fmt.Errorf("the request has %d headers of %d bytes, at most %d of %d are accepted", count, size, mostHeaders, mostText)
	}
	return nil
}
