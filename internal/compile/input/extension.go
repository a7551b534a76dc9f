package input

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// extension holds one of Fairway's own keys in MeshConfig.defaultConfig.proxyMetadata, or the settings of requests in defaultConfig. The
// key decides which field is set.
type extension struct {
	namespaces []string
	accounts   []config.ServiceAccount
	http       mesh.HTTPSettings
	strict     bool
}

func sameExtension(a, b *extension) bool {
	return slices.Equal(a.namespaces, b.namespaces) && slices.Equal(a.accounts, b.accounts) && a.http == b.http && a.strict == b.strict
}

// declareExtensions reads those keys once: a row a key, so that who reads one is not computed again for another.
func declareExtensions(settings *table.Table[string, *meshconfig.MeshConfig]) *table.Table[string, *extension] {
	return table.Derive(settings, "settings/extensions", strings.Compare, sameExtension,
		func(_ *table.Reader, field string, m *meshconfig.MeshConfig, emit func(string, *extension)) {
			if field != "default_config" {
				return
			}
			for key, value := range config.Extensions(m) {
				switch key {
				case config.LocalEndpointsKey, config.LuaKey, config.GatewayNamespacesKey, config.NetworkGatewayNamespacesKey:
					emit(key, &extension{namespaces: config.Namespaces(value)})
				case config.OwnershipKey:
					emit(key, &extension{strict: strings.TrimSpace(value) == config.OwnershipStrict})
				case config.SecretAccountsKey, config.LabelAccountsKey:
					emit(key, &extension{accounts: config.ServiceAccounts(value)})
				}
			}
			if s, err := config.HTTPSettings(m.GetDefaultConfig()); err == nil && s != (mesh.HTTPSettings{}) {
				emit(httpDefaults, &extension{http: s})
			}
		}).SkipInOrigins()
}

// AllowsLocalEndpoints reports whether rules of a namespace may lead proxies of other namespaces, and gateways, to addresses on the proxy's
// own machine: config.LocalEndpointsKey.
func (t *Tables) AllowsLocalEndpoints(r *table.Reader, namespace string) bool {
	return t.listsNamespace(r, config.LocalEndpointsKey, namespace)
}

// listsNamespace reports whether the list of a key holds a namespace.
func (t *Tables) listsNamespace(r *table.Reader, key, namespace string) bool {
	e, ok := table.Get(r, t.extended, key)
	return ok && config.ListsNamespace(e.namespaces, namespace)
}

// MayRunLua reports whether objects of a namespace may run Lua in proxies (config.LuaKey), and whether an administrator said so: by
// that key, or because the namespace is the root namespace.
func (t *Tables) MayRunLua(r *table.Reader, namespace string) (may, chosen bool) {
	if namespace == t.RootNamespace(r) {
		return true, true
	}
	e, ok := table.Get(r, t.extended, config.LuaKey)
	return !ok || slices.Contains(e.namespaces, namespace) || slices.Contains(e.namespaces, "*"), ok
}

// LuaProblem returns the problem of an object that runs Lua (told: there is one), and whether the object may run it. field contains the
// code. There is no problem if an administrator allowed it.
func (t *Tables) LuaProblem(r *table.Reader, o *config.Object, field string) (problem mesh.Problem, told, may bool) {
	may, chosen := t.MayRunLua(r, o.Namespace)
	const setting = "defaultConfig.proxyMetadata." + config.LuaKey
	switch {
	case !may:
		return o.Problem(field, code.RunsLua, mesh.Error,
			"namespaces that may run Lua are listed in the mesh configuration, and "+o.Namespace+" is not: this Lua does not run",
			"let the mesh's administrator add "+o.Namespace+" to "+setting), true, false
	case !chosen:
		return o.Problem(field, code.RunsLua, mesh.Info,
			"Lua runs with the rights of the proxy: it can read the proxy's files, keys and tokens too, and start programs",
			"the mesh's administrator can list the namespaces that may run Lua in "+setting), true, true
	}
	return mesh.Problem{}, false, true
}

// Answers says which addresses count if a proxy resolves names for its clients. Addresses of the proxy's own machine count only if every
// namespace may lead there.
func (t *Tables) Answers(r *table.Reader) dynamic.Answers {
	if t.AllowsLocalEndpoints(r, "*") {
		return dynamic.All
	}
	return dynamic.Others
}

// ProxyPlaces returns what is a proxy's own on its machine, by the mesh's configuration: ports, and the folder of its agent's sockets, ""
// if none is set.
func (t *Tables) ProxyPlaces(r *table.Reader) (ports []uint32, folder string) {
	d := t.field(r, "default_config").GetDefaultConfig()
	for _, p := range []int32{d.GetProxyAdminPort(), d.GetStatusPort()} {
		if p > 0 {
			ports = append(ports, uint32(p))
		}
	}
	return append(ports, t.ProxyListenPort(r), t.ProxyInboundPort(r)), d.GetConfigPath()
}

// TakesSecrets reports whether the mesh's configuration gives Secrets to proxies of a service account if no object says who may have them
// (config.SecretAccountsKey).
func (t *Tables) TakesSecrets(r *table.Reader, namespace, account string) bool {
	return t.lists(r, config.SecretAccountsKey, namespace, account)
}

// TakesLabels reports whether the mesh's configuration trusts a service account to claim the labels of its proxies:
// config.LabelAccountsKey.
func (t *Tables) TakesLabels(r *table.Reader, namespace, account string) bool {
	return t.lists(r, config.LabelAccountsKey, namespace, account)
}

// lists reports whether the list of a key holds a service account.
func (t *Tables) lists(r *table.Reader, key, namespace, account string) bool {
	e, ok := table.Get(r, t.extended, key)
	return ok && slices.ContainsFunc(e.accounts, func(a config.ServiceAccount) bool { return a.Holds(namespace, account) })
}
