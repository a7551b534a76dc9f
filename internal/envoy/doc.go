// Package envoy turns model values into Envoy messages. This folder holds what they end in: Encoded, a message as the
// bytes that go on the wire. Its folders, what a proxy is sent first:
//
//	listener, route, cluster, endpoint  the messages of LDS, RDS, CDS and EDS
//	names                               the name tables that agents resolve by
//	bootstrap                           what an Envoy starts with
//
// Parts of these messages:
//
//	tls             transport sockets
//	authentication  the filter of RequestAuthentications
//	authorization   the filters of AuthorizationPolicies
//	caller          how a proxy tells whom it calls which workload it stands beside
//	dynamic         the dynamic forward proxy
//	picker          what has endpoint pickers choose endpoints
//	extension       the filters of WasmPlugin and TrafficExtension
//	telemetry       access loggers, spans, metrics
//
// Beside them:
//
//	warming  agents' reports of listeners and clusters that warm
//
// Changes and checks of them:
//
//	amend        patches of EnvoyFilters
//	proxyconfig  what one proxy's own configuration changes
//	inspect      texts in patches and extensions that lead to the agent
//	known        every message that stock Envoy takes, by its type
//
// Everything here is pure: no globals, no I/O, no clock, no map order in an output. It must not know tables, streams or
// where values came from.
package envoy
