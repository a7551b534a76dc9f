// Package pushed lets other control planes push configuration, with the service ResourceSink of MCP. It finds the entry of
// MeshConfig.configSources that lets a caller push, and hands the caller's stream to the source of that entry. Other callers are
// refused. It must not know the types of the resources (source/mcpxds), nor how a certificate of the mesh is verified (secure).
package pushed
