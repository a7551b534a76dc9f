// Package webhook answers an API server's admission reviews (admission.k8s.io/v1): the patch that puts a proxy into a pod, and whether an
// object is valid for its kind.
//
//	POST /inject[/key/<key>][/cluster/<name>][/net/<name>]   a Pod → a JSON patch, or nothing
//	POST /validate                                           an object of Istio's kinds → allowed, with warnings, or refused
//
// The verdicts are those of package inject and of config's decoder, the same as for files. Any client that reaches the port may ask: an API
// server shows credentials only if it is configured to. So an answer reveals only what follows from the question and from settings that
// every injected pod shows. It changes nothing, and its cost is bounded by the bounded size of the question.
//
// place reads and writes the paths of injection.
//
// The package must not know how an answer is computed, where settings come from, or what serves it.
package webhook
