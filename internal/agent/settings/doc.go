// Package settings works out how one agent and its Envoy are configured, from flags, environment and files, as
// istio-proxy's agent reads them, and says what Envoy is started with.
//
//	flags, environment, files ── Resolve ─► Options ── Plan ─► binary, arguments, variables, bootstrap
//
// Flags win over the workload's annotation, that over PROXY_CONFIG, that over ProxyConfig resources, those over the
// mesh's defaultConfig, that over defaults. A mistake of the user's is a *UsageError that names flag, variable or file.
//
// It reads, and starts nothing. It must not know what runs an Envoy, or what becomes of the options while it runs.
package settings
