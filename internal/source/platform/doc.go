// Package platform is what sources have in common that read registries of instances (Consul, Nomad, Eureka, ZooKeeper): how services and
// their instances become rows, and how the state of a registry is reported. Package servers calls its servers.
//
//	records, lists ─► Book ─► Service with Instances ─► Translator ─► a whole shard: mesh.Service and its slices ─► Outbox ─► source.Sink
//
// A Book holds what a registry lists, within bounds, and keeps for a time what its server may have lost. Sources that need no records
// (Consul, ZooKeeper) make Services themselves. The Outbox knows the reported problems, so a source may report the same ones again.
//
// A registry is not trusted: its names, labels and numbers are bounded and checked here, and invalid ones are left out and reported as
// Problems. The package must not know any one registry.
package platform
