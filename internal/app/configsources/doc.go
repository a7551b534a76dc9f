// Package configsources reads configuration from where the mesh configuration says (configSources): folders, and other control planes
// that are called or push. They start and end as the mesh configuration changes.
package configsources
