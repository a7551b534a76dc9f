package policy

import (
	"slices"

	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy/authorization"
	"fairway/internal/envoy/listener"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Tables are the derived tables of this package.
type Tables struct {
	in      *input.Tables
	reg     *registry.Tables
	indexes []*selects.Index[struct{}] // one a kind
	// authorizations are the AuthorizationPolicies in the form for proxies.
	authorizations *table.Table[config.Key, *authorization.Compiled]
	unproved       *table.Table[config.Key, unproved]
	// verifications are the RequestAuthentications in the form for proxies.
	verifications *table.Table[config.Key, *verification]

	// Enforced are the versions of RequestAuthentications that are in force.
	Enforced *table.Table[config.Key, *config.Object]
	// Unread are those with a newest version that is not in force yet, because its keys have not been asked for.
	Unread *table.Table[config.Key, *config.Object]
	// KeySources are the sources of keys that the control plane has to ask, with the first namespace that needs them.
	KeySources *table.Table[jwks.Source, string]
	// Waiting are the proxies that have to wait for a policy that is not in force yet.
	Waiting *table.Table[mesh.ProxyID, struct{}]
}

// Declare declares the package's tables.
func Declare(in *input.Tables, who *vouch.Tables, reg *registry.Tables) *Tables {
	t := &Tables{in: in, reg: reg}
	t.declareAuthentications(who)
	t.declareAuthorizations()
	t.declareUnproved()
	return t
}

// holds adds a kind of policies that hold for workloads. of returns a policy's selector.
func (t *Tables) holds(objects *input.Objects, of func(*config.Object) selects.Selector) {
	t.indexes = append(t.indexes, selects.Keys(objects, objects.Name()+"/for", func(o *config.Object) (selects.Selector, bool) {
		return of(o), true
	}))
}

// For names the policies that hold for a workload: those of its namespace and of the root namespace that select it by labels or targets, or
// that select all.
func (t *Tables) For(r *table.Reader, w selects.Workload) Set {
	var keys []config.Key
	root := t.in.RootNamespace(r)
	for _, index := range t.indexes {
		h := index.For(r, root, w)
		for _, e := range slices.Concat(h.Own(), h.Namespace(), h.RootOwn(), h.Root()) {
			keys = append(keys, e.Key)
		}
	}
	return MakeSet(keys...)
}

// OfProxy names the policies that hold for the workload beside a proxy, or for a proxy that is a workload itself.
func (t *Tables) OfProxy(r *table.Reader, p vouch.Proxy) Set { return t.For(r, p.Workload()) }

// selectorOf returns the selector of a policy, from its labels and targets.
func selectorOf(
	o *config.Object, labels *typev1beta1.WorkloadSelector, one *typev1beta1.PolicyTargetReference,
	list []*typev1beta1.PolicyTargetReference,
) selects.Selector {
	return selects.Selector{
		Namespace: o.Namespace, Labels: mesh.MakeLabels(labels.GetMatchLabels()), Targets: selects.TargetsOf(one, list),
	}
}

// Filters are the filters that policies add for a workload.
type Filters struct {
	Requests    listener.Phased   // to HTTP
	Connections listener.Phased   // to connections that are not HTTP, or not known to be
	Needs       []mesh.ClusterKey // clusters that they name
}

// Filters makes the filters of a set. The reading row depends on the content of the set's policies.
func (t *Tables) Filters(r *table.Reader, s Set) Filters {
	var out Filters
	t.authenticate(r, s, &out)
	t.authorize(r, s, &out)
	return out
}
