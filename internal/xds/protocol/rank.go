package protocol

import "fairway/internal/xds/library"

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
	case library.ClusterType:
		return rankCluster
	case library.EndpointType:
		return rankEndpoint
	case library.SecretType:
		return rankSecret
	case library.ListenerType:
		return rankListener
	case library.RouteType:
		return rankRoute
	case library.VirtualHostType:
		return rankVirtualHost
	}
	return rankOther
}

// legacyWildcard tells whether a first request without names means everything. Types that are only ever fetched by
// reference have no such reading: there an empty request subscribes to nothing.
func legacyWildcard(typ string) bool {
	switch typ {
	case library.EndpointType, library.RouteType, library.SecretType, library.ExtensionType:
		return false
	}
	return true
}

// fullState tells whether a state-of-the-world response of this type must hold everything the client is subscribed
// to (xDS protocol, "Grouping Resources into Responses"). A table of names does not say which resource it is: only in
// one that holds all of them can a name be missed.
func fullState(typ string) bool {
	return typ == library.ClusterType || typ == library.ListenerType || typ == library.NameTableType
}
