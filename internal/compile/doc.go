// Package compile is the pure function at the middle of the program: from what users wrote, what registries know and which proxies are
// connected, to the resources that proxies are sent. Its folders each declare tables of one feature; graph.go declares them all. Each may
// read only those before it in this list:
//
//	input        what the outside puts in: objects, services, proxies. Four rooms make rows of what was put in:
//	             ingress (Gateways of Ingresses), gatewayapi (those of the Gateway API), delegate (whole VirtualServices), member
//	             (WorkloadEntries of machines)
//	registry     services and their endpoints, of all registries
//	network      networks, and the gateways between them
//	peer         which ports take mutual TLS
//	vouch        which labels of proxies count
//	selects      which objects hold for a workload; unselected tells of those that hold for none, lacking of other names that nothing has
//	sidecar      what proxies import
//	policy       filters of AuthorizationPolicy, RequestAuthentication and their kin
//	patch        EnvoyFilters, for bootstraps and for resources
//	telemetry    access logs, spans, metrics
//	extension    filters of WasmPlugin and TrafficExtension
//	demand       layers and views: which proxies see the same, and what each is given in the end
//	inbound      what the workload beside a sidecar serves
//	scope        for each host what each layer sees of it
//	route        virtual hosts and route configurations
//	secret       what Secrets hold, to those whose listeners and clusters name it
//	gateway      listeners, routes and clusters of gateways
//	backendtls   how gateways speak TLS to backends
//	inference    the endpoint pickers of InferencePools
//	datagram     listeners and clusters of gateways for UDP
//	cluster      clusters and load assignments
//	listener     listeners of sidecars
//	names        what agents resolve
//	exported     objects and hosts for other control planes
//	proxyconfig  overlays for proxies with a ProxyConfig of their own
//	status       all problems, and the conditions in the statuses of objects
//
// compiletest runs the whole graph for tests.
//
// A row reads only tables declared above its own; what it reads is recorded, and a change recomputes exactly the rows
// that read it. Nothing on that path walks all services, all proxies or all rows of a layer. A mistake of a user is a
// note of type mesh.Problem on the row that found it.
//
// The package must not know where rows come from, nor streams, versions on the wire or clocks.
package compile
