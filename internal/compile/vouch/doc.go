// Package vouch decides which of the labels that proxies report count.
//
// A node chooses the labels that it reports. Rules that grant something select proxies by labels: the Gateways that a proxy serves, the
// client credentials that it presents, its own routes and patches. So if a proxy proved an identity, only labels count that others give it.
// If it has the name of a Pod and proved the Pod's service account, it has the Pod's labels and addresses. If no registry knows it, labels
// count that somebody else gives to its service account: a WorkloadEntry, a ServiceEntry's endpoint or a WorkloadGroup of the account's
// namespace; or all its labels, if the mesh's administrator trusts the account (config.LabelAccountsKey). If a proxy proved nothing, all
// its labels count, and it gets nothing secret. Rules that only restrict use all labels: a label that is not vouched for must not free a
// proxy of them.
//
// The package must not know which objects select by labels, nor the effect of a selection.
package vouch
