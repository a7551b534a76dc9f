// Package writes has all that the control plane writes into the cluster that it reads: statuses, addresses of Ingresses, the ConfigMaps
// with the mesh's roots, Secrets with certificates, and what API servers believe of its webhooks.
//
//	what was read, what turns changed ─► a task: keys that may be wrong ─► what stands, what should ─► a patch
//
// Each task is a folder. leader holds the Leases by which one replica alone writes, work is the queue that all tasks have (limited,
// tried again, bounded) and knows what failed and which rights are missing, follow is a list and a watch of one kind.
//
// Nothing that is written here is an input, but what health writes for other replicas: the source passes over statuses, and the other
// objects are read by nobody else. The package must not know the graph, proxies, nor what rules mean: what is to be said of an object
// comes as problems.
package writes
