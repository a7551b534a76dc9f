// Package cluster builds Envoy clusters from services and the policy of a DestinationRule.
//
// Each field of a DestinationRule is handled in one place: resolve.go finds the settings in force for a port and a subset; balancer.go,
// pool.go, outlier.go, http.go and security.go translate them. Outbound and Inbound put the parts together; Passthrough, BlackHole and
// InboundPassthrough are the clusters that every proxy has. Meanings and defaults are those of istio.io/api's destination_rule.proto, and
// its generated messages are used directly. Fields that Envoy has deprecated are never set.
//
// Everything is pure and depends on its arguments alone. The package must not know tables, which proxy sees which service, or which rule
// wins.
package cluster
