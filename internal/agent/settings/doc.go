// Package settings works out how one agent and its Envoy are configured, from flags, environment and files, as istio-proxy's agent
// reads them, and makes the plan that Envoy is started with.
//
//	flags, environment, files ── Resolve ─► Options ── Plan ─► binary, arguments, variables, bootstrap
//
// In order of precedence: flags, ProxyConfig resources that select the workload, its annotation, ProxyConfig resources of its
// namespace and of the mesh, PROXY_CONFIG, the mesh's defaultConfig, defaults. A mistake of the user's is a *UsageError that names
// flag, variable or file.
//
// It reads, and starts nothing. It must not know what runs an Envoy, or what becomes of the options while it runs.
package settings
