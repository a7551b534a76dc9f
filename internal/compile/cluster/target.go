package cluster

import (
	"cmp"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/backendtls"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
)

// Key names a cluster as a layer sees it.
type Key struct {
	Layer   mesh.Layer
	Cluster mesh.ClusterKey
}

// CompareKey orders by layer, then cluster.
func CompareKey(a, b Key) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), mesh.CompareClusterKey(a.Cluster, b.Cluster))
}

// Target is the content of a cluster: a port of a service, or a subset of its endpoints, and the policy in force there. It is immutable.
type Target struct {
	Service   *mesh.Service
	Port      mesh.Port
	Labels    mesh.Labels // which of the service's endpoints; empty: all
	Policy    cluster.Policy
	Rule      mesh.ObjectRef      // the DestinationRule; zero: none
	Picks     bool                // the rule picks the proxies that it holds for
	Backend   *backendtls.Backend // a BackendTLSPolicy, which Policy.TLS is from; nil: none
	Discovery cluster.Discovery
	Below     bool // the layer below has the same load assignment under the same name
	Plain     bool // it is reached without TLS, whatever the mesh or a rule says
	Local     bool // endpoints on the client's own machine are among its endpoints
}

func sameTarget(a, b *Target) bool {
	return a == b || a.Service.Equal(b.Service) && a.Port == b.Port && a.Labels == b.Labels && a.Discovery == b.Discovery &&
		a.Below == b.Below && a.Plain == b.Plain && a.Local == b.Local && a.Rule == b.Rule && a.Picks == b.Picks &&
		a.Policy.Equal(b.Policy) && a.Backend.Equal(b.Backend)
}

// sameCluster reports whether two targets of one name make the same cluster.
func sameCluster(a, b *Target) bool { return sameTarget(a.with(false), b.with(false)) }

// sameLoad reports whether two targets of one name have the same load assignment.
func sameLoad(a, b *Target) bool {
	return a.Service.Key == b.Service.Key && a.Service.ClusterLocal == b.Service.ClusterLocal && a.Port == b.Port &&
		a.Labels == b.Labels && a.Discovery == b.Discovery && a.Local == b.Local &&
		a.localitySetting().same(b.localitySetting())
}

func (t *Target) with(below bool) *Target {
	c := *t
	c.Below = below
	return &c
}

// view is a service and the rule for it, as some layer sees them.
type view struct {
	service *mesh.Service
	rule    *scope.Rule // nil: none
	gateway bool
	local   bool // Target.Local
}

func (v view) spec() *networking.DestinationRule {
	if v.rule == nil {
		return nil
	}
	return v.rule.Spec
}

// same reports whether two views of one host make the same targets. It may return false although they do.
func (v view) same(o view) bool {
	return v.service.Equal(o.service) && v.rule == o.rule && v.local == o.local
}

// each yields all targets of a view: every port, as a whole and by subset.
func (v view) each(yield func(mesh.ClusterKey, *Target)) {
	for _, p := range v.service.Ports {
		if p.Protocol == mesh.UDP || v.unresolved() {
			continue
		}
		yield(v.target(p, ""))
		for _, s := range v.spec().GetSubsets() {
			yield(v.target(p, s.GetName()))
		}
	}
}

// find returns one target of a view; false: the view has no such port or subset.
func (v view) find(key mesh.ClusterKey) (*Target, bool) {
	p, ok := v.service.Port(key.Port)
	if !ok || v.unresolved() || key.Subset != "" && v.rule.Subset(key.Subset) == nil {
		return nil, false
	}
	_, t := v.target(p, key.Subset)
	return t, true
}

// unresolved reports whether proxies have no cluster of the service: gateways do not resolve names that their clients choose.
func (v view) unresolved() bool { return v.gateway && v.service.Resolution == mesh.DynamicDNS }

func (v view) target(p mesh.Port, subset string) (mesh.ClusterKey, *Target) {
	t := &Target{
		Service: v.service, Port: p, Policy: cluster.Resolve(v.spec(), subset, p.Number),
		Labels: mesh.MakeLabels(v.rule.Subset(subset).GetLabels()), Local: v.local,
	}
	if v.rule != nil {
		t.Rule, t.Picks = v.rule.Owner(subset).Ref, v.rule.Key.Clients != ""
	}
	t.Discovery = cluster.Discover(v.service, t.Policy, v.gateway)
	return mesh.ClusterKey{Port: p.Number, Subset: subset, Host: v.service.Key.Host}, t
}

// selection says which endpoints a load assignment holds, and under which name. Targets with the same selection share the assignment.
type selection struct {
	Cluster mesh.ClusterKey
	Service mesh.ServiceKey
	Port    mesh.Port
	Labels  mesh.Labels
	Local   bool   // with endpoints on the client's own machine
	In      string // only endpoints of this cluster, or of none; empty: all
}

func compareSelection(a, b selection) int {
	return cmp.Or(mesh.CompareClusterKey(a.Cluster, b.Cluster), mesh.CompareServiceKey(a.Service, b.Service),
		cmp.Compare(a.Labels, b.Labels), cmp.Compare(a.Port.Name, b.Port.Name), cmp.Compare(a.Port.Number, b.Port.Number),
		cmp.Compare(a.Port.Target, b.Port.Target), cmp.Compare(a.Port.Protocol, b.Port.Protocol), compareBool(a.Local, b.Local),
		cmp.Compare(a.In, b.In))
}

// ownsLoad reports whether a target has a load assignment of its own: not none, nor the one of the layer below.
func (t *Target) ownsLoad() bool { return t.Discovery == cluster.Delivered && !t.Below }

func (t *Target) selection(key mesh.ClusterKey) selection {
	return selection{key, t.Service.Key, t.Port, t.Labels, t.Local, ""}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
