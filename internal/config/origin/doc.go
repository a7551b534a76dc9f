// Package origin reads where a mesh configuration says that configuration comes from (MeshConfig.configSources), and who may push it. It
// must not know how a source is called.
package origin
