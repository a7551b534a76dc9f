package ads

import (
	"fmt"
	"strings"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy/names"
)

// The types that an Envoy asks for, as xDS names them.
const (
	prefix          = "type.googleapis.com/envoy.config."
	ClusterType     = prefix + "cluster.v3.Cluster"
	EndpointType    = prefix + "endpoint.v3.ClusterLoadAssignment"
	ListenerType    = prefix + "listener.v3.Listener"
	RouteType       = prefix + "route.v3.RouteConfiguration"
	VirtualHostType = prefix + "route.v3.VirtualHost"
	NameTableType   = names.Type
)

// Types lists them in the order in which Envoy learns of them.
var Types = [...]string{ClusterType, EndpointType, ListenerType, RouteType, VirtualHostType}

// Short is a type's name without what all share.
func Short(typ string) string { return typ[strings.LastIndexByte(typ, '.')+1:] }

// Reader tells what resources refer to. It decodes each name and version once for all clients that share it, so that their cost stays small beside the server's.
// It is safe for concurrent use.
type Reader struct {
	mu   sync.Mutex
	refs map[string][]string
}

// NewReader returns a reader.
func NewReader() *Reader { return &Reader{refs: map[string][]string{}} }

// references lists the names that a client asks for next because of the resource: a cluster's load assignment, a listener's route configurations,
// a route configuration's virtual hosts (as the one wildcard "*").
func (r *Reader) references(typ string, res resource) ([]string, error) {
	key := typ + "\x00" + res.name + "\x00" + res.version
	r.mu.Lock()
	defer r.mu.Unlock()
	if names, ok := r.refs[key]; ok && res.version != "" {
		return names, nil
	}
	names, err := decodeReferences(typ, res.body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", typ, res.name, err)
	}
	r.refs[key] = names
	return names, nil
}

// follows is the type that a resource's references are of.
func follows(typ string) string {
	switch typ {
	case ClusterType:
		return EndpointType
	case ListenerType:
		return RouteType
	case RouteType:
		return VirtualHostType
	}
	return ""
}

func decodeReferences(typ string, body []byte) ([]string, error) {
	switch typ {
	case ClusterType:
		var c clusterv3.Cluster
		if err := proto.Unmarshal(body, &c); err != nil || c.GetType() != clusterv3.Cluster_EDS {
			return nil, err
		}
		if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
			return []string{name}, nil
		}
		return []string{c.Name}, nil
	case ListenerType:
		return routesOf(body)
	case RouteType:
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(body, &rc); err != nil || rc.Vhds == nil {
			return nil, err
		}
		return []string{"*"}, nil
	}
	return nil, nil
}

// routesOf lists the route configurations that a listener names.
func routesOf(body []byte) (names []string, err error) {
	var l listenerv3.Listener
	if err := proto.Unmarshal(body, &l); err != nil {
		return nil, err
	}
	for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
		for _, f := range chain.GetFilters() {
			var hcm hcmv3.HttpConnectionManager
			if !f.GetTypedConfig().MessageIs(&hcm) {
				continue
			}
			if err := f.GetTypedConfig().UnmarshalTo(&hcm); err != nil {
				return nil, err
			}
			if name := hcm.GetRds().GetRouteConfigName(); name != "" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
