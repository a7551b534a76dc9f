// Package config reads what users write: objects of Istio's API kinds, Secrets, mesh configuration and mesh networks.
//
// A Decoder takes one document (YAML or JSON) at a time, or one tree from a client of an API server. It takes the same steps as an API
// server, so that a file means the same as that text in a cluster:
//
//	text → tree → unknown fields → defaults → schema → CEL rules → rules that no schema can say → istio.io/api message → Object
//
// Mistakes come out as mesh.Problem rows that name file, line, field and a fix; a document with one Error gives no Object.
//
//	d, err := config.NewDecoder(config.Options{})
//	for _, doc := range config.Split("rules.yaml", text) {
//		object, problems := d.Decode(doc)
//	}
//
// Objects, their kinds and their metadata are in this room; each step has a room of its own below, which does not import this one:
//
//	document   text → trees, and the lines of fields
//	report     what is said of one document: paths, problems
//	schemas    Istio's published CRD schemas
//	crd        trees judged by them, and by their CEL rules
//	message    tree → proto message
//	rule       the words that the rules of kinds are written in
//	traffic    the rules of VirtualService, DestinationRule, Gateway, ServiceEntry, Sidecar, WorkloadEntry, WorkloadGroup
//	security   the rules of PeerAuthentication, RequestAuthentication, AuthorizationPolicy
//	extension  the rules of Telemetry, WasmPlugin, TrafficExtension, EnvoyFilter, ProxyConfig
//	native     the rules of Kubernetes' own kinds, and of the Gateway API's
//	filters    what routes of the Gateway API have beside the fields of VirtualServices
//	origin     where a mesh configuration says that configuration comes from
//	secret     credentials out of Secrets
//
// The package does no I/O. It must not know where documents come from (source), nor what an object does (compile): it sees one object at a
// time, so a check that needs a second object is not here.
package config
