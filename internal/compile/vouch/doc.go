// Package vouch decides which of the labels that proxies say of themselves count.
//
// A label of a node is the node's own word. Rules that give something select proxies by labels: which Gateways a proxy
// serves, whose credentials it shows as a client, which routes and patches are its own. So of a proxy that proved an
// identity those labels count that a registry gives to its workload: a proxy of the name of a Pod, which proved the Pod's
// service account, has the Pod's labels and addresses. Of one that no registry knows those count that somebody else gives
// to its service account: a WorkloadEntry, a ServiceEntry's endpoint or a WorkloadGroup of the account's namespace, or the
// mesh's administrator, who may take an account at its word (config.LabelAccountsKey). What proved nothing is given nothing
// that is secret, and is taken at its word. Rules that only restrict go by all labels: one that nobody vouches for must
// not free a proxy of them.
//
// The package must not know what selects by labels, nor what follows from it.
package vouch
