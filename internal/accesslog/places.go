package accesslog

import "slices"

// Place is a part of a mesh where the cause of a line may be.
type Place struct {
	Name string
	Look string // what to look at
}

// places are in the order of a request's way.
var places = []Place{
	{"client", "the client, and its own timeout"},
	{"request", "the request itself, as the client sent it"},
	{"connection", "the listener of the proxy, and its limits"},
	{"listener", "the Gateway's servers, PeerAuthentication, and the listener's filter chains"},
	{"drain", "the proxy's life: drains and changes of listeners"},
	{"policy", "the AuthorizationPolicies of the server's workload"},
	{"token", "the RequestAuthentications of the server's workload"},
	{"authorizer", "the CUSTOM AuthorizationPolicy, and its provider in the mesh configuration"},
	{"ratelimit", "the EnvoyFilter with the rate limit, or the rate limit service"},
	{"fault", "fault of the VirtualService's route"},
	{"cors", "corsPolicy of the VirtualService's route"},
	{"filter", "the extension that answered: WasmPlugin, TrafficExtension or EnvoyFilter"},
	{"route", "the VirtualServices of the request's host, and their matches"},
	{"answer", "directResponse, redirect and the catch-all route"},
	{"redirect", "the internal redirect policy of the route"},
	{"destination", "the destination of the route: host, subset and port"},
	{"timeout", "timeout of the VirtualService's route"},
	{"pertry", "retries.perTryTimeout of the VirtualService's route"},
	{"retries", "retries of the VirtualService's route"},
	{"idle", "the idle timeouts of the route, the connection pool and the listener"},
	{"duration", "the longest durations of requests and connections"},
	{"cluster", "the cluster: its service and DestinationRule"},
	{"endpoints", "the service's endpoints, the subset's labels, outlier detection"},
	{"drop", "drop_overloads of the load assignment"},
	{"dns", "the destination's host name, and the proxy's resolver"},
	{"pool", "connectionPool of the DestinationRule"},
	{"connect", "the endpoint's address and port, and whether a process listens there"},
	{"tls", "tls of the DestinationRule, PeerAuthentication, and both certificates"},
	{"reset", "the workload that answers, and its own log"},
	{"upstream", "the protocol of the service's port, and the workload that answers"},
	{"buffer", "the limits of bodies"},
	{"health", "the health of the workload beside the proxy"},
	{"overload", "the proxy's own load"},
	{"application", "the application's own log"},
}

// PlaceCalled returns the place of a name; false: there is none.
func PlaceCalled(name string) (Place, bool) {
	if i := slices.IndexFunc(places, func(p Place) bool { return p.Name == name }); i >= 0 {
		return places[i], true
	}
	return Place{}, false
}
