package xds

// The type URLs that the protocol room treats specially, because the order of sending depends on them.
//
// A virtual host's resource name is its route configuration's name, a slash, and a name without one; and the name
// within the message has to be the very same, for Envoy removes virtual hosts by that.
const (
	ClusterType     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType       = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	VirtualHostType = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	SecretType      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	ExtensionType   = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	NameTableType   = "type.googleapis.com/istio.networking.nds.v1.NameTable"
)

// typesKnown are those that count as known before there is a shelf of them.
func typesKnown() map[string]bool {
	return map[string]bool{
		ClusterType:     true,
		EndpointType:    true,
		ListenerType:    true,
		RouteType:       true,
		VirtualHostType: true,
		SecretType:      true,
		ExtensionType:   true,
		NameTableType:   true,
	}
}

// rank is the place of a type in the order of sending: clusters, their load assignments, secrets, whatever else, then what
// refers to clusters (xDS protocol, "Eventual consistency considerations").
type rank int

const (
	rankCluster rank = iota
	rankEndpoint
	rankSecret
	rankOther
	rankListener
	rankRoute
	rankVirtualHost
)

func rankOf(typ string) rank {
	switch typ {
	case ClusterType:
		return rankCluster
	case EndpointType:
		return rankEndpoint
	case SecretType:
		return rankSecret
	case ListenerType:
		return rankListener
	case RouteType:
		return rankRoute
	case VirtualHostType:
		return rankVirtualHost
	}
	return rankOther
}

// legacyWildcard tells whether a first request without names means everything. Types that are only ever fetched by
// reference have no such reading: there an empty request subscribes to nothing.
func legacyWildcard(typ string) bool {
	switch typ {
	case EndpointType, RouteType, SecretType, ExtensionType:
		return false
	}
	return true
}

// fullState tells whether a state-of-the-world response of this type must hold everything the client is subscribed
// to (xDS protocol, "Grouping Resources into Responses"). A table of names does not say which resource it is: only in
// one that holds all of them can a name be missed.
func fullState(typ string) bool {
	return typ == ClusterType || typ == ListenerType || typ == NameTableType
}

// shortType is a type URL without what all of them share, for texts that people read.
func shortType(typ string) string {
	for i := len(typ) - 1; i >= 0; i-- {
		if typ[i] == '.' || typ[i] == '/' {
			return typ[i+1:]
		}
	}
	return typ
}
