// Package registry derives the services of the mesh and their endpoints from all registries: ServiceEntry and
// WorkloadEntry objects, and what other registries hand in as rows.
//
//	Naming  ──► Services (service as its registry knows it) ──► Merged (host, namespace) ──► ServicesByHost
//	                                                             └─► VIPs (addresses of services that have none)
//	Serving ──► Endpoints ──► EndpointsByHost (host, namespace), EndpointsByAddress (IP)
//
// Several registries, or several ServiceEntries, may say something of one host in one namespace. The aggregator's rule: the registry of the
// higher rank, then the older, then the smaller name wins; what it does not say of ports the others add. The losers carry a Problem.
// The same host in different namespaces stays apart: who sees which is scope's business.
//
// Of a service of several clusters the control plane's own goes first. Its addresses in each stand beside those that it has
// (Service.Clusters), and Differs says of which clusters proxies are to be told apart (clusters.go, addresses.go).
//
// A WorkloadEntry whose agent says that its application fails is Unready: it keeps its row, and load assignments leave it out (health.go).
//
// Joins run from the side that changes: a WorkloadEntry asks an index of selectors by its own labels, so that one
// changed entry recomputes one row. The specification is networking/v1alpha3/service_entry.proto and
// workload_entry.proto of istio.io/api.
package registry
