// Package pushed lets other control planes push configuration, by the service ResourceSink of MCP: it finds out as which entry of
// MeshConfig.configSources a caller may, and hands its stream to the source of that entry. Nothing is read of anybody else. It must not
// know what is pushed (source/mcpxds), nor how a certificate of the mesh is proved (secure).
package pushed
