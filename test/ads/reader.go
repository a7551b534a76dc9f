package ads

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
)

// The types that an Envoy asks for, as xDS names them.
const (
	prefix          = "type.googleapis.com/envoy.config."
	ClusterType     = prefix + "cluster.v3.Cluster"
	EndpointType    = prefix + "endpoint.v3.ClusterLoadAssignment"
	ListenerType    = prefix + "listener.v3.Listener"
	RouteType       = prefix + "route.v3.RouteConfiguration"
	VirtualHostType = prefix + "route.v3.VirtualHost"
	SecretType      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	ExtensionType   = xdstype.ExtensionURL
	NameTableType   = xdstype.NameTableURL
)

// Types lists the types in the order that Envoy uses to learn of them.
var Types = [...]string{ClusterType, EndpointType, ListenerType, SecretType, ExtensionType, RouteType, VirtualHostType}

// referred lists the types that other resources refer to, in the order of the client's requests.
var referred = [...]string{EndpointType, SecretType, ExtensionType, RouteType, VirtualHostType}

// Short is a type's name without the common prefix.
func Short(typ string) string { return typ[strings.LastIndexByte(typ, '.')+1:] }

// Reader tells what resources refer to. It decodes each name and version once for all clients that share it, so that
// their cost stays small beside the server's. It is safe for concurrent use.
type Reader struct {
	mu   sync.Mutex
	refs map[string]references
}

// NewReader returns a reader.
func NewReader() *Reader { return &Reader{refs: map[string]references{}} }

// references are names by type.
type references map[string][]string

// references lists what a client asks for next because of the resource: a cluster's load assignment, a listener's route
// configurations, extension configs and secrets, a route configuration's virtual hosts (as the one wildcard "*").
func (r *Reader) references(typ string, res resource) (references, error) {
	key := typ + "\x00" + res.name + "\x00" + res.version
	r.mu.Lock()
	defer r.mu.Unlock()
	if refs, ok := r.refs[key]; ok && res.version != "" {
		return refs, nil
	}
	refs, err := decodeReferences(typ, res.body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", typ, res.name, err)
	}
	r.refs[key] = refs
	return refs, nil
}

func decodeReferences(typ string, body []byte) (references, error) {
	switch typ {
	case ClusterType:
		return referencesOfCluster(body)
	case ListenerType:
		return referencesOf(body)
	case RouteType:
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(body, &rc); err != nil || rc.Vhds == nil {
			return nil, err
		}
		return references{VirtualHostType: {"*"}}, nil
	}
	return nil, nil
}

// referencesOfCluster lists the load assignment of a cluster, and the secrets that come from the control plane.
func referencesOfCluster(body []byte) (references, error) {
	var c clusterv3.Cluster
	if err := proto.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	out := references{}
	if c.GetType() == clusterv3.Cluster_EDS {
		out[EndpointType] = []string{cmp.Or(c.GetEdsClusterConfig().GetServiceName(), c.Name)}
	}
	sockets := []*corev3.TransportSocket{c.TransportSocket}
	for _, m := range c.TransportSocketMatches {
		sockets = append(sockets, m.TransportSocket)
	}
	for _, socket := range sockets {
		var tls tlsv3.UpstreamTlsContext
		if packed := socket.GetTypedConfig(); packed != nil && packed.MessageIs(&tls) {
			if err := packed.UnmarshalTo(&tls); err != nil {
				return nil, err
			}
			out[SecretType] = append(out[SecretType], secretsOf(tls.GetCommonTlsContext())...)
		}
	}
	return out, nil
}

// extension adds what a filter asks for by its name.
func (r references) extension(name string, from *corev3.ExtensionConfigSource) {
	if from.GetConfigSource().GetAds() != nil {
		r[ExtensionType] = append(r[ExtensionType], name)
	}
}

// referencesOf lists the route configurations that a listener names, and the secrets that come from the control plane.
func referencesOf(body []byte) (references, error) {
	var l listenerv3.Listener
	if err := proto.Unmarshal(body, &l); err != nil {
		return nil, err
	}
	out := references{}
	for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
		for _, f := range chain.GetFilters() {
			out.extension(f.GetName(), f.GetConfigDiscovery())
			var hcm hcmv3.HttpConnectionManager
			if !f.GetTypedConfig().MessageIs(&hcm) {
				continue
			}
			if err := f.GetTypedConfig().UnmarshalTo(&hcm); err != nil {
				return nil, err
			}
			for _, h := range hcm.GetHttpFilters() {
				out.extension(h.GetName(), h.GetConfigDiscovery())
			}
			if name := hcm.GetRds().GetRouteConfigName(); name != "" {
				out[RouteType] = append(out[RouteType], name)
			}
		}
		var tls tlsv3.DownstreamTlsContext
		if packed := chain.GetTransportSocket().GetTypedConfig(); packed != nil && packed.MessageIs(&tls) {
			if err := packed.UnmarshalTo(&tls); err != nil {
				return nil, err
			}
			out[SecretType] = append(out[SecretType], secretsOf(tls.GetCommonTlsContext())...)
		}
	}
	return out, nil
}

func secretsOf(c *tlsv3.CommonTlsContext) (out []string) {
	all := append(c.GetTlsCertificateSdsSecretConfigs(), c.GetValidationContextSdsSecretConfig(),
		c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig())
	for _, s := range all {
		if s.GetSdsConfig().GetAds() != nil {
			out = append(out, s.Name)
		}
	}
	return out
}
