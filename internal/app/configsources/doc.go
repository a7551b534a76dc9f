// Package configsources reads configuration from the sources that the mesh configuration names (configSources): folders, and other
// control planes that are called or push. The sources start and end as the mesh configuration changes.
package configsources
