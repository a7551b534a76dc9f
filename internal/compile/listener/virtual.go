package listener

import (
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareVirtual builds virtualOutbound, which takes every connection that is intercepted on its way out and hands it
// to the listener of where it was going. What no listener takes goes on, or nowhere, as the outbound policy says. A
// namespace has Public's.
func (t *Tables) declareVirtual() {
	t.Virtual = table.Derive(t.views.Table, "listener/virtual outbound", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, v Variant, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if v.Interception == mesh.None || v.Layer.Kind == mesh.NamespaceLayer {
				return
			}
			set, _ := table.Get(r, t.settings, v.Layer)
			l, needs := virtualOutbound(set.of(v), v)
			e := envoy.Encode(listener.Build(l))
			e.Needs = set.Log.Told.With(needs)
			emit(mesh.ResourceKey{Shelf: v.shelf(), Name: l.Name}, e)
		})
}

func virtualOutbound(set settings, v Variant) (l listener.Listener, needs []string) {
	hole, rest := set.to(blackHole), set.rest(true)
	needs = append(hole.Needs(), rest.Needs()...)
	return listener.Listener{
		Name: listener.VirtualOutbound, Address: v.Families.Any(), Also: v.Families.AlsoAny(), Port: set.Outbound,
		Direction: listener.Outbound,
		HandOver:  true, Transparent: v.Interception == mesh.TProxy, KeepOnFailedHealth: true, AccessLog: set.Log.ForNoRoute(),
		// Who dials the listener itself would be sent to itself again, without end.
		Chains:  []listener.Chain{{Name: "virtualOutbound-blackhole", Match: listener.Match{Port: set.Outbound}, Filters: hole.Filters()}},
		Default: &listener.Chain{Name: "virtualOutbound-catchall-tcp", Filters: rest.Filters()},
	}, needs
}
