package library

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

// ShortType is a type URL without what all of them share, for texts that people read.
func ShortType(typ string) string {
	for i := len(typ) - 1; i >= 0; i-- {
		if typ[i] == '.' || typ[i] == '/' {
			return typ[i+1:]
		}
	}
	return typ
}
