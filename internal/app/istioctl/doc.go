// Package istioctl answers what istioctl asks a control plane over xDS, on the ports of proxies: requests of types below istio.io/debug.
// Each is answered by the debug page of that name, which is asked as over HTTP, with the caller's address, certificates and token: so the
// same callers may see the same of it. Some types have the page's content in Envoy's messages.
//
// It must not know the content of other pages. Start reading in Desk.Answer.
package istioctl
