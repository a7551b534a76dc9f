// Package caller is how a proxy tells those whom it calls which workload it stands beside: stock Envoy has no exchange of metadata.
//
// Requests carry one header, Header, which every proxy writes over whatever its clients sent. Its value is the same for
// all that a proxy sends, so it stands in the proxy's environment, as Variable, and the configuration that names it is
// the same for all proxies. Whoever is called believes it only of a peer with a certificate, keeps it in the request's
// dynamic metadata (Namespace, Key) for the mesh's metrics, and takes it from the request. It never leaves the mesh.
//
//	FAIRWAY_CALLER=web-v1;web;v1;web;v1;Kubernetes ──► x-fairway-caller ──► dynamic metadata fairway.caller
//		──► a tag of istio_requests_total
//
// A claim is a claim: nothing may be allowed by it. Whom the caller's certificate names is not part of it. The package
// knows the words; envoy/route, envoy/cluster and envoy/listener put them to use, agent and agent/exposition write and
// read them.
package caller
