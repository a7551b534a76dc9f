// Package caller lets a proxy tell the servers that it calls which workload it belongs to: stock Envoy cannot exchange metadata.
//
// Requests carry one header, Header, which every proxy sets in place of any value that its clients sent. Its value is the same for all
// requests of a proxy. So it is a variable of the proxy's environment, Variable, and the configuration that refers to it is the same for
// all proxies. The server's proxy believes the header only from a peer with a certificate, stores it in the request's dynamic metadata
// (Namespace, Key) for the mesh's metrics, and removes it from the request. It never leaves the mesh.
//
//	FAIRWAY_CALLER=web-v1;web;v1;web;v1;Kubernetes ──► x-fairway-caller ──► dynamic metadata fairway.caller
//		──► a tag of istio_requests_total
//
// A claim proves nothing: nothing may be allowed because of it. The identity in the caller's certificate is not part of it. The package
// defines the format; envoy/route, envoy/cluster and envoy/listener use it, agent and agent/exposition write and read it.
package caller
