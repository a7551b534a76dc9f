package exported

import (
	"cmp"
	"slices"
	"strings"

	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mcpwire"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables are the tables of this package.
type Tables struct {
	// Readers are the control planes that read the configuration: demand.
	Readers *table.Input[mesh.ProxyID, struct{}]
	// Resources are the messages istio.mcp.v1alpha1.Resource for other control planes. There are none while there is no reader.
	Resources *table.Table[config.Key, *envoy.Encoded]

	in     *input.Tables
	reg    *registry.Tables
	wanted *table.Table[struct{}, struct{}] // has its row while somebody reads
}

// Declare declares the package's tables.
func Declare(s *table.Store, in *input.Tables, reg *registry.Tables) *Tables {
	t := &Tables{in: in, reg: reg}
	t.Readers = table.NewInput(s, "readers", cmp.Compare[mesh.ProxyID], table.Same[struct{}])
	t.wanted = t.declareWanted()
	parts := []table.Part[config.Key, *envoy.Encoded]{}
	for _, kind := range config.Kinds() {
		parts = append(parts, table.Whole(t.objects(kind)))
	}
	parts = append(parts, table.Whole(t.entries()))
	t.Resources = table.Union("exported", config.CompareKey, envoy.Same, nil, parts...)
	return t
}

func (t *Tables) declareWanted() *table.Table[struct{}, struct{}] {
	one := func(struct{}, struct{}) int { return 0 }
	return table.Keys(t.Readers.Table, "exported/wanted", one, func(mesh.ProxyID, struct{}) []struct{} {
		return []struct{}{{}}
	}).SkipInOrigins()
}

// objects exports the objects of a kind that a user wrote.
func (t *Tables) objects(kind config.Kind) *table.Table[config.Key, *envoy.Encoded] {
	return table.Derive(t.in.Of(kind), "exported/"+string(kind), config.CompareKey, envoy.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *envoy.Encoded)) {
			if o.Made != nil || !table.Has(r, t.wanted, struct{}{}) {
				return
			}
			emit(k, encode(o))
		})
}

// entries exports the ServiceEntries of hosts that another registry knows.
func (t *Tables) entries() *table.Table[config.Key, *envoy.Encoded] {
	others := func(_ registry.HostKey, m *registry.Merged) bool {
		return m.Service.Key.Registry != registry.ServiceEntryRegistry
	}
	return table.DeriveWhere(t.reg.Merged, others, "exported/synthetic", config.CompareKey, envoy.Same,
		func(r *table.Reader, k registry.HostKey, m *registry.Merged, emit func(config.Key, *envoy.Encoded)) {
			if !table.Has(r, t.wanted, struct{}{}) {
				return
			}
			o := t.entry(r, k, m)
			emit(o.Key, encode(o))
		})
}

// types are the xDS types of each kind, and kinds the kind of each xDS type.
var types, kinds = func() (map[config.Kind][]string, map[string]config.Kind) {
	byKind, byType := map[config.Kind][]string{}, map[string]config.Kind{}
	for _, api := range config.APIs() {
		byKind[api.Kind] = append(api.Types(), mcpwire.Collection(api.Group, api.Versions[len(api.Versions)-1], string(api.Kind)))
		for _, typ := range byKind[api.Kind] {
			byType[typ] = api.Kind
		}
	}
	byType[mcpwire.SyntheticEntries] = config.ServiceEntry
	return byKind, byType
}()

// TypesOf returns the xDS types of an object: one for each version of its kind's API, such as "networking.istio.io/v1/ServiceEntry", and
// the collection of MCP. ServiceEntries that no user wrote have a collection of their own. The result must not be modified.
func TypesOf(k config.Key) []string {
	all := types[k.Kind]
	if k.Kind == config.ServiceEntry && strings.HasPrefix(k.Name, Synthetic) {
		return append(all[:len(all)-1:len(all)-1], mcpwire.SyntheticEntries)
	}
	return all
}

// KeyOf returns the key of the object with this name under a type; false: there is no such type, or the object does not belong to it.
func KeyOf(typ, name string) (config.Key, bool) {
	kind, ok := kinds[typ]
	if !ok {
		return config.Key{}, false
	}
	k := parseName(kind, name)
	return k, slices.Contains(TypesOf(k), typ)
}

// Types lists all types that other control planes may ask for, sorted. The last ones are of kinds that never have objects: a client that
// waits for an answer to each type gets an empty one.
func Types() []string {
	out := make([]string, 0, len(kinds)+len(foreign))
	for typ := range kinds {
		out = append(out, typ)
	}
	return append(slices.Sorted(slices.Values(out)), foreign...)
}

// foreign are types that Istio's control plane waits for, and that this one has no objects of.
var foreign = []string{
	mcpwire.MeshCollection,
	"gateway.networking.k8s.io/v1/GRPCRoute",
	"gateway.networking.k8s.io/v1/Gateway",
	"gateway.networking.k8s.io/v1/GatewayClass",
	"gateway.networking.k8s.io/v1/HTTPRoute",
	"gateway.networking.k8s.io/v1/BackendTLSPolicy",
	"gateway.networking.k8s.io/v1/TLSRoute",
	"gateway.networking.k8s.io/v1alpha2/TCPRoute",
	"gateway.networking.k8s.io/v1alpha2/TLSRoute",
	"gateway.networking.k8s.io/v1alpha2/UDPRoute",
	"gateway.networking.k8s.io/v1alpha3/TLSRoute",
	"gateway.networking.k8s.io/v1beta1/ReferenceGrant",
	"gateway.networking.x-k8s.io/v1alpha1/XBackendTrafficPolicy",
	"gateway.networking.x-k8s.io/v1alpha1/XListenerSet",
	"inference.networking.k8s.io/v1/InferencePool",
	"istio.io/v1alpha1/MeshConfig",
	"networking.istio.io/v1alpha1/ProxyConfig",
}
