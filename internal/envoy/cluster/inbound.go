package cluster

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
)

// The source addresses of a sidecar's connections to its own workload. Interception lets connections from them pass: Istio's rules have an
// exception for these addresses.
const (
	LoopbackSource  = "127.0.0.6"
	LoopbackSource6 = "::6"
)

// Inbound is the cluster that leads from a sidecar to its own workload on one port.
type Inbound struct {
	Key      mesh.ClusterKey
	Port     mesh.Port       // the port as clients know it
	Services []*mesh.Service // that the port serves, for metadata
	// Address is where the workload listens: an IP with On, or a unix socket. Empty: the original destination of the intercepted
	// connection, on the port On unless that is 0.
	Address string
	On      uint32
	// Sources are the source addresses of connections if Address is empty, at most one for each family (LoopbackSource under REDIRECT);
	// none: any.
	Sources  []string
	Pool     *networking.ConnectionPoolSettings // nil: no limits
	Defaults Defaults
	Stands   string // service name in the statistics of a port that no service has; empty: the cluster's own name
	Closed   bool   // the cluster has no endpoints: the requested destination must not be reached
}

// Build returns the cluster.
func (i Inbound) Build() *clusterv3.Cluster {
	name := i.Key.String()
	c := &clusterv3.Cluster{
		Name:                          name,
		AltStatName:                   i.statName(name),
		CircuitBreakers:               breakers(i.Pool, nil),
		TypedExtensionProtocolOptions: i.httpOptions(),
	}
	connect(c, i.Pool.GetTcp(), i.Defaults)
	if len(i.Services) > 0 {
		c.Metadata = istio(map[string]*structpb.Value{"services": services(i.Services...)})
	}
	if i.Closed {
		static(c, "", 0)
		c.LoadAssignment.Endpoints = nil
		return c
	}
	if i.Address == "" {
		originalDestination(c)
		if i.On != 0 {
			c.LbConfig = portOverride(i.On)
		}
		c.UpstreamBindConfig = bind(i.Sources)
		return c
	}
	static(c, i.Address, i.On)
	return c
}

func (i Inbound) statName(name string) string {
	switch {
	case i.Defaults.StatName == "":
	case len(i.Services) > 0:
		return fill(i.Defaults.StatName, i.Services[0], i.Port, "") + statDelimiter
	case i.Stands != "":
		s := &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(i.Stands)}}
		return fill(i.Defaults.StatName, s, i.Port, "") + statDelimiter
	}
	return name + statDelimiter
}

func portOverride(port uint32) *clusterv3.Cluster_OriginalDstLbConfig_ {
	return &clusterv3.Cluster_OriginalDstLbConfig_{
		OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: wrapperspb.UInt32(port)},
	}
}

// httpOptions forwards HTTP unchanged: HTTP/2 if the port is known to speak it, else the client's protocol.
func (i Inbound) httpOptions() map[string]*anypb.Any {
	if !carriesHTTP(i.Port.Protocol) {
		return nil
	}
	options := &httpv3.HttpProtocolOptions{CommonHttpProtocolOptions: commonOptions(i.Pool)}
	if i.Port.Protocol.IsHTTP2() {
		options.UpstreamProtocolOptions = explicitHTTP2(http2(i.Pool.GetHttp()))
	} else {
		options.UpstreamProtocolOptions = asDownstream(http2(i.Pool.GetHttp()))
	}
	return packed(options)
}

func static(c *clusterv3.Cluster, address string, port uint32) {
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: c.Name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: endpoint.Address(address, port)}},
		}},
	}}}
}

// bind sets the source addresses of connections: Envoy uses the one of the destination's address family, else the first.
func bind(sources []string) *corev3.BindConfig {
	if len(sources) == 0 {
		return nil
	}
	at := func(source string) *corev3.SocketAddress {
		return &corev3.SocketAddress{Address: source, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0}}
	}
	out := &corev3.BindConfig{SourceAddress: at(sources[0])}
	if slices.Contains(sources, LoopbackSource6) {
		out.Freebind = wrapperspb.Bool(true) // interception delivers it here, even if no interface has this address
	}
	for _, s := range sources[1:] {
		out.ExtraSourceAddresses = append(out.ExtraSourceAddresses, &corev3.ExtraSourceAddress{Address: at(s)})
	}
	return out
}

// The names of the clusters that every proxy has.
const (
	PassthroughName        = "PassthroughCluster"
	BlackHoleName          = "BlackHoleCluster"
	InboundPassthroughName = "InboundPassthroughCluster"
	ByNameName             = "AllowAnyDynamicDNSCluster"
)

// Passthrough returns the cluster for connections to unknown destinations: it connects to the address that the client dialled.
func Passthrough(d Defaults) *clusterv3.Cluster {
	return passthrough(PassthroughName, nil, d, d.Pool, &httpv3.HttpProtocolOptions{HttpFilters: removeCallerHeader()})
}

// InboundPassthrough returns the cluster for connections to ports of the workload that no service has. sources are the source addresses;
// none: any.
func InboundPassthrough(sources []string, d Defaults) *clusterv3.Cluster {
	return passthrough(InboundPassthroughName, sources, d, nil, &httpv3.HttpProtocolOptions{})
}

func passthrough(
	name string, sources []string, d Defaults, pool *networking.ConnectionPoolSettings, http *httpv3.HttpProtocolOptions,
) *clusterv3.Cluster {
	http.CommonHttpProtocolOptions, http.UpstreamProtocolOptions = commonOptions(pool), asDownstream(http2(pool.GetHttp()))
	c := &clusterv3.Cluster{
		Name:                          name,
		AltStatName:                   name + statDelimiter,
		CircuitBreakers:               breakers(pool, nil),
		TypedExtensionProtocolOptions: packed(http),
		UpstreamBindConfig:            bind(sources),
		Metadata:                      noService(name),
	}
	connect(c, pool.GetTcp(), d)
	originalDestination(c)
	return c
}

// ByName returns the cluster for requests to hosts that no service has. It connects to the name and port in their Host headers, with TLS
// if the settings ask for it (MeshConfig.OutboundTrafficPolicy.tls; nil: plaintext). If the proxy cannot use these TLS settings, the
// cluster has no endpoints.
func ByName(d Defaults, t *networking.ClientTLSSettings) *clusterv3.Cluster {
	o := Outbound{Service: &mesh.Service{External: true}, Policy: Policy{TLS: t}, Discovery: Named, Defaults: d}
	c := &clusterv3.Cluster{
		Name:            ByNameName,
		AltStatName:     ByNameName + statDelimiter,
		CircuitBreakers: breakers(d.Pool, nil),
		TypedExtensionProtocolOptions: packed(&httpv3.HttpProtocolOptions{
			CommonHttpProtocolOptions:   commonOptions(d.Pool),
			UpstreamHttpProtocolOptions: o.nameFromRequest(),
			UpstreamProtocolOptions:     asDownstream(http2(d.Pool.GetHttp())),
			HttpFilters:                 removeCallerHeader(),
		}),
		Metadata: noService(ByNameName),
	}
	connect(c, d.Pool.GetTcp(), d)
	var err error
	if c.TransportSocket, err = o.transport(); err != nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		return c
	}
	o.discover(c)
	return c
}

// BlackHole returns a cluster without endpoints, which refuses all traffic.
func BlackHole(d Defaults) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 BlackHoleName,
		AltStatName:          BlackHoleName + statDelimiter,
		ConnectTimeout:       d.ConnectTimeout,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		CommonLbConfig:       panicThreshold(nil),
		Metadata:             noService(BlackHoleName),
	}
}
