// Package source says what a source of rows is. Each kind of source has a folder of its own below and hands what it finds to a Sink;
// none knows what becomes of it:
//
//	file       directory trees, the mesh configuration and the mesh networks
//	kube       a Kubernetes API server
//	consul, nomad, eureka, zookeeper  registries of services
//	etcd       objects that are kept in etcd
//	mcpxds     another control plane, over xDS
//	api        programs, and whatever speaks HTTP
//	memory     code: tests, and programs that embed the control plane
//
// Shared by all:
//
//	mcp        how other control planes are reached, and the messages that they speak in
//	platform   turns instances into rows, calls servers, reports their state
//	budget     how much one source may keep and read
//	weigh      how much memory a message may take before it is decoded
//	kept       what a source said last, on disk
//	shards     what all sources say together: what goes on is what became different
package source
