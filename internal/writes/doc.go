// Package writes has all that the control plane writes into the cluster that it reads: statuses, addresses of Ingresses, the ConfigMaps
// with the mesh's roots, Secrets with certificates, and what API servers believe of its webhooks.
//
//	what was read, what turns changed ─► a task: keys that may be wrong ─► what stands, what should ─► a patch
//
// Each task is a folder:
//
//	status    conditions of Istio's objects
//	address   where gateways are reached, in the status of Ingresses
//	roots     the mesh's roots, in a ConfigMap of each namespace
//	certs     certificates for names, in Secrets
//	hooks     the roots in webhooks' configurations
//	entries   WorkloadEntries of machines that joined
//	health    what agents say of applications, in the status of WorkloadEntries
//	refused   what proxies refuse, for the other replicas
//
// Shared by the tasks:
//
//	leader     the Leases: only their holder writes
//	work       a bounded queue with retries, which reports failures and missing rights
//	follow     a list and a watch of one kind
//	condition  one condition of a status
//	signer     certificates from a signer of Kubernetes
//
// Nothing that is written here is an input, but what health writes for other replicas: the source passes over statuses, and the other
// objects are read by nobody else. The package must not know the graph, proxies, nor what rules mean: what is to be said of an object
// comes as problems.
package writes
