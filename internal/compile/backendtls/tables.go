package backendtls

import (
	"cmp"
	"slices"

	"fairway/internal/compile/gatewayapi"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables are the tables of this package.
type Tables struct {
	// Wanted are the Secrets and ConfigMaps that policies and Gateways name. They are read even if no proxy of this control plane needs
	// them: the leader, which may have no proxy of a Gateway, says in statuses whether they can be used.
	Wanted *table.Table[secret.Key, struct{}]

	in       *input.Tables
	reg      *registry.Tables
	secrets  *secret.Tables
	settings *table.Table[config.Key, *settings]
	chosen   *table.Table[mesh.Host, choice]
	clients  *table.Table[gatewayapi.ClientKey, client]
}

// Declare declares the tables.
func Declare(in *input.Tables, reg *registry.Tables, secrets *secret.Tables, routed *gatewayapi.Tables) *Tables {
	t := &Tables{in: in, reg: reg, secrets: secrets}
	t.settings = table.Derive(in.BackendTLSPolicies, "backendtls/settings", config.CompareKey, (*settings).equal,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *settings)) {
			t.checkTargets(r, o)
			emit(k, t.settingsOf(r, o))
		})
	byHost := table.Group(in.BackendTLSPolicies, "backendtls/policies by host", cmp.Compare[mesh.Host],
		func(_ config.Key, o *config.Object) (out []mesh.Host) {
			for _, of := range t.targets(o) {
				out = append(out, of.host)
			}
			return out
		})
	t.chosen = table.Derive(byHost, "backendtls/chosen", cmp.Compare[mesh.Host], choice.equal,
		func(r *table.Reader, host mesh.Host, rows table.Rows[config.Key, *config.Object], emit func(mesh.Host, choice)) {
			emit(host, t.choose(r, host, rows))
		})
	t.clients = table.Derive(routed.Clients, "backendtls/client certificates", gatewayapi.CompareClient, table.Same[client],
		func(r *table.Reader, k gatewayapi.ClientKey, c gatewayapi.Client, emit func(gatewayapi.ClientKey, client)) {
			emit(k, t.clientOf(r, k.Namespace, c))
		})
	t.declareWanted(routed)
	return t
}

// declareWanted declares Wanted. The ConfigMaps of a policy are wanted while some route of a Gateway leads to one of its backends.
func (t *Tables) declareWanted(routed *gatewayapi.Tables) {
	used := table.Derive(t.in.BackendTLSPolicies, "backendtls/used", config.CompareKey, config.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if slices.ContainsFunc(t.targets(o), func(of target) bool { return table.Has(r, routed.Leading, of.host) }) {
				emit(k, o)
			}
		})
	maps := table.Keys(used, "backendtls/wanted configmaps", secret.CompareKey,
		func(_ config.Key, o *config.Object) []secret.Key { return configMaps(o) })
	secrets := table.Keys(routed.Clients, "backendtls/wanted secrets", secret.CompareKey,
		func(_ gatewayapi.ClientKey, c gatewayapi.Client) []secret.Key {
			if c.Refused != "" {
				return nil
			}
			return []secret.Key{{Namespace: c.Namespace, Name: c.Secret}}
		})
	t.Wanted = table.Union("backendtls/wanted", secret.CompareKey, table.Same[struct{}], nil, table.Whole(maps), table.Whole(secrets))
}
