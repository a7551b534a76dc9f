package levels

import "strings"

// Scope is a part of a program.
type Scope struct {
	Name, About string
	// packages are folders below internal. A line counts for the scope with the longest folder around the package that wrote it.
	packages []string
}

// Default is the scope of all lines that no other scope has; Audit is that of decisions about identities.
const (
	Default = "default"
	Audit   = "audit"
)

// Control returns the scopes of the control plane. Names are Istio's where it has the scope.
func Control() []Scope {
	return []Scope{
		{"ads", "streams of proxies: connections, refusals, differences that the audit of streams finds", []string{
			"xds", "app/serving", "app/session", "app/proof", "app/lease", "app/audit", "app/reader",
		}},
		{Audit, "decisions about identities; never quieter than at the start", nil},
		{"ca", "the certificate authority and its certificates", []string{"identity", "app/secure", "app/authority"}},
		{Default, "everything else", nil},
		{"door", "rules that wait for what they refer to", []string{"door"}},
		{"file", "rules and settings in files", []string{"source/file", "disk", "app/flagfiles"}},
		{"kube", "what Kubernetes API servers say", []string{"source/kube", "app/clusters"}},
		{"pages", "debug pages and metrics", []string{"admin", "web"}},
		{"registries", "the other sources: Consul, Nomad, Eureka, ZooKeeper, etcd, MCP, the HTTP API", []string{
			"source", "store", "app/lasting", "app/registries", "app/configsources", "app/pushed",
		}},
		{"state", "state that control planes share", []string{"state", "store/shared", "app/sharing"}},
		{"status", "writes into the cluster", []string{"writes", "app/writeback"}},
		{"turns", "each change that was computed", []string{"app/loop", "app/history", "app/publish"}},
		{"webhook", "injection and validation", []string{"webhook", "app/injection"}},
	}
}

// Agent returns the scopes of the agent.
func Agent() []Scope {
	return []Scope{
		{Default, "everything else", nil},
		{"dns", "names that the application resolves", []string{"agent/names"}},
		{"envoy", "starts, restarts and the end of Envoy", []string{"agent/epoch", "agent/drain", "agent/warming", "agent/patches"}},
		{"healthcheck", "checks of the application", []string{"agent/health"}},
		{"sds", "certificates and keys for Envoy", []string{"agent/secrets"}},
		{"status", "readiness, probes and metrics", []string{"agent/status", "agent/admin", "web"}},
		{"wasm", "modules of extensions", []string{"agent/extensions"}},
		{"xdsproxy", "streams between Envoy and the control plane", []string{"agent/relay", "agent/planes"}},
	}
}

// scopeOf returns the scope of a function, named as the runtime names it: its package, a dot, and the rest.
func scopeOf(scopes []Scope, function string) string {
	folder := function
	slash := strings.LastIndexByte(folder, '/')
	if dot := strings.IndexByte(folder[slash+1:], '.'); dot >= 0 {
		folder = folder[:slash+1+dot]
	}
	_, folder, _ = strings.Cut(folder, "/internal/")
	best, found := 0, Default
	for _, s := range scopes {
		for _, p := range s.packages {
			if len(p) > best && (folder == p || strings.HasPrefix(folder, p+"/")) {
				best, found = len(p), s.Name
			}
		}
	}
	return found
}
