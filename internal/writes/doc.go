// Package writes holds all tasks that write into the cluster that the control plane reads: statuses, addresses of Ingresses, ConfigMaps
// with the mesh's roots, Secrets with certificates, and the configurations of its webhooks.
//
//	what was read, what turns changed ─► a task: keys that may be wrong ─► current and wanted state ─► a patch
//
// Each task is a folder:
//
//	status      conditions of Istio's objects: whether each is in force, and on all proxies
//	gatewayapi  statuses of the Gateway API's objects
//	gateways    Deployments, Services and ServiceAccounts of the Gateway API's Gateways
//	address     where gateways are reached, in the status of Ingresses
//	roots       the mesh's roots, in a ConfigMap of each namespace
//	certs       certificates for names, in Secrets
//	hooks       the roots in webhooks' configurations
//	entries     WorkloadEntries of machines that joined
//	health      what agents say of applications, in the status of WorkloadEntries
//	refused     what proxies refuse, for the other replicas
//
// Shared by the tasks:
//
//	leader      the Leases: only their holder writes
//	work        a bounded queue with retries, which reports failures and missing rights
//	follow      a list and a watch of one kind
//	peers       texts that control planes share with the leader, in Leases
//	condition   one condition of a status
//	signer      certificates from a signer of Kubernetes
//
// Nothing that is written here is an input, except what health writes for other replicas: the source skips statuses, and no other part
// reads the other objects. The package must not know the graph, proxies, nor the meaning of rules: it receives conditions as they should
// be.
package writes
