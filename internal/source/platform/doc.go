// Package platform is what sources have in common that read registries of instances (Consul, Nomad, Eureka, ZooKeeper):
// how services and what serves them become rows, and how the standing of a registry is told. Package servers calls its servers.
//
//	records, lists ─► Book ─► Service with Instances ─► Translator ─► a whole shard: mesh.Service and its slices ─► Outbox ─► source.Sink
//
// A Book holds what a registry lists, within bounds, and keeps for a time what its server may have lost. Sources that need no records
// (Consul, ZooKeeper) make Services themselves. The Outbox knows what was reported, so a source may report the same thing again.
//
// What a registry says is a stranger's: names, labels and numbers are bounded and checked here, and what is wrong is left
// out and told as a Problem. The package must not know any one registry.
package platform
