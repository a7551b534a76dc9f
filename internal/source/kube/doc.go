// Package kube is the source of what a Kubernetes API server holds: Services, EndpointSlices, Pods, Nodes and Namespaces
// as rows, Istio's kinds as objects, and the mesh configuration out of the ConfigMap istio.
//
//	catalog ─► feed (a list, then a watch; one a kind) ─► reader (objects ─► rows) ─► outbox ─► the source's sink
//
// Each kind has a feed of its own. What a list finds is one whole shard; what a watch says are changes of it. A watch
// that breaks goes on where it was; where the API server has forgotten that (410), the kind is listed again. A feed that
// cannot go on keeps what it handed over and tries again, ever more seldom: nothing is emptied because somebody does not
// answer. What ends one feed, or what is wrong with one object, is no other's business.
//
// A kind that is not served (its CRD is not there) or may not be read (RBAC) holds nobody up: it is a remark in the log
// or a problem, and is read once it can be. A watch on CRDs tells when.
//
// Objects are translated as they arrive and let go: no second copy is kept of what the sink has. Feeds run beside one
// another; the outbox gathers what they say while the sink takes something, and hands it on as one Update.
//
// The package must not know what rows and objects mean (translate, config), nor what becomes of them.
package kube
