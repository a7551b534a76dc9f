// Package gatewayapi makes Gateways and VirtualServices from the kinds of the Gateway API, beside those that users write.
//
//	GatewayClasses ──► Gateways that are ours ──┬─► listeners, a row each ──┬──► a Gateway each
//	                   ListenerSets ────────────┘                           │
//	routes ────────────────► attachments (route, listener) ◄────────────────┘
//	                               └──► a VirtualService each; UDPRoutes have tables of their own (Datagrams, Bound)
//	ReferenceGrants ──► grants ──► who may name what of another namespace
//
// The specification is the Gateway API's (gateway.networking.k8s.io), the comments of its types. Made objects have names that users cannot
// write; their problems are problems of the objects that users wrote, with these objects' own fields.
//
// One listener is one Gateway with one server, because requests to it must not be answered by routes of another one (listener isolation).
// So each route and listener have a VirtualService with the hosts that both have in common, and that no narrower listener of the port has.
// Routes of one host are ordered by how specific their matches are, whichever objects they are from (config.Made.ByPath).
//
// Routes whose parents are services have a VirtualService for each, for the sidecars of their clients.
//
// requests translates matches and filters, parents reads what routes are bound to, grants knows what ReferenceGrants allow, leads finds
// Gateways by what their routes lead to, owners says which control plane carries out a Gateway, deployed says which objects a cluster has
// for it, parameters reads how its author changes them, and verdict has the words of statuses.
//
// The package must not know what becomes of a Gateway or a VirtualService.
package gatewayapi
