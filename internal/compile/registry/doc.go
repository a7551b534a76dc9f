// Package registry derives the services of the mesh and their endpoints from all registries: ServiceEntry and
// WorkloadEntry objects, and what other registries hand in as rows.
//
//	Naming  ──► Services (service as its registry knows it) ──► Merged (host, namespace) ──► ServicesByHost
//	                                                             └─► VIPs (addresses of services that have none)
//	Serving ──► Endpoints ──► EndpointsByHost (host, namespace), EndpointsByAddress (IP)
//
// Several registries, or several ServiceEntries, may declare one host in one namespace. The aggregator's rule: the registry of the higher
// rank wins, then the older object, then the smaller name; the others add the ports that the winner lacks. The losers carry a Problem. The
// same host in different namespaces stays apart: scope decides which clients see which.
//
// If several clusters have a service, the control plane's own cluster has precedence. The service keeps its addresses in each cluster
// (Service.Clusters), and Differs names the clusters with proxies that need views of their own (clusters.go, addresses.go).
//
// A WorkloadEntry is Unready if its agent reports that the application fails: it keeps its row, and load assignments leave it out
// (health.go).
//
// Joins run from the side that changes: a WorkloadEntry asks an index of selectors by its own labels, so that one
// changed entry recomputes one row. The specification is networking/v1alpha3/service_entry.proto and
// workload_entry.proto of istio.io/api.
package registry
