// Package cluster builds Envoy clusters from services and the policy of a DestinationRule.
//
// A field of a DestinationRule has its line in one place: resolve.go says which settings are in force for a port and a
// subset, balancer.go, pool.go, outlier.go, http.go and security.go what each becomes. Outbound and Inbound put the
// parts together; Passthrough, BlackHole and InboundPassthrough are the clusters that every proxy has. Meanings and
// defaults are those of istio.io/api's destination_rule.proto, whose generated messages are taken as they are; only
// fields that Envoy has not deprecated are written.
//
// Everything is pure and depends on its arguments alone. The package must not know tables, who sees what, or which rule wins.
package cluster
