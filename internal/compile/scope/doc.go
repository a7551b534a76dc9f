// Package scope derives each layer's view of each host.
//
//	Naming  ──► mentions by host (services, VirtualServices, DestinationRules) ──► hosts ┐
//	Layers  ──► reach (what a Sidecar imports, or a namespace's view) ───────────────────┴─ by pair ──► Views (layer, host)
//
// # Views
//
// The key of everything that is sent to sidecars is Key{Layer, Host}; Views has a row for each that is demanded:
//
//   - Public: the shared view, of a namespace that no exportTo names. It is computed for a host when some plain sidecar needs it.
//   - A NamespaceLayer: only hosts that the namespace may see in another way than Public: services of its own (short
//     names), things exported to it alone, DestinationRules that hold for it alone. A plain sidecar sees Public with
//     its namespace on top. A feature that derives something from a row of a NamespaceLayer derives the same from
//     Public's row, if there is one, and emits nothing if both are equal.
//   - A SidecarLayer: all hosts that the Sidecar's egress imports. No Public lies below. Proxies of a Sidecar that
//     imports everything have none: they see what their namespace sees. If its outboundTrafficPolicy is not the
//     mesh's, they get a variant of the listeners and route configurations (demand.Outbound).
//   - If DestinationRules select some proxies of a NamespaceLayer or SidecarLayer by labels, each such set of labels has
//     a layer of its own (demand/labels.go), in place of the plain one.
//   - Gateway layers have no rows: a gateway sees what its rules name. Tables.View computes it when it is needed.
//
// A row says which service the host is, which VirtualServices hold for it (by key: a row that needs their text reads
// it, and only that row is touched by an edit), and which DestinationRule. A host that only VirtualServices name has a
// row without service.
//
// # A Sidecar's egress listeners
//
// Egress has a row for each egress listener of each demanded SidecarLayer: its own port, bind and capture mode, if it has them.
// HostView.Egress lists the indexes of the listeners that import a host. Listeners without a port take the ports of their hosts' services,
// and a host and port that a listener with that port imports is that listener's alone. If a listener has its own port, PortOn returns the
// service's port for it, and Listener.RouteName the name of its route configuration.
//
// The package must not know how a resource is written, nor what a proxy is beside its layer.
package scope
