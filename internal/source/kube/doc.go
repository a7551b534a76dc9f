// Package kube is the source of what a Kubernetes API server holds: Services, EndpointSlices, Pods, Nodes and Namespaces
// as rows, Istio's kinds as objects, and the mesh configuration out of the ConfigMap istio.
//
//	answers ─► feed (a list, then a watch; one a kind) ─► rows (of objects) ─► outbox ─► the source's sink
//
// Each kind has a feed of its own. A list is one whole shard; the events of a watch are changes of it. A watch that
// breaks goes on where it was; if the API server has forgotten that version (410), the kind is listed again. A feed that
// cannot go on keeps what it handed over and tries again, ever more seldom: nothing is removed because a server does not
// answer. An error of one feed, or of one object, does not affect others.
//
// A kind that is not served (its CRD does not exist) or may not be read (RBAC) delays nothing: it is a remark in the log
// or a problem, and is read once that is possible. A watch on CRDs tells when.
//
// Objects are translated as they arrive and let go: no second copy is kept of what the sink has. Feeds run beside one
// another; the outbox gathers their rows while the sink takes an Update, and hands them on as one.
//
// Three rooms are below it: answers asks an API server and reads its answers, rows are the readers, and translate makes a row of one object
// of Kubernetes' own.
//
// The package must not know what rows and objects mean (translate, config), nor what becomes of them.
package kube
