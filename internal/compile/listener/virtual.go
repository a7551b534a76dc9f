package listener

import (
	"cmp"
	"slices"
	"time"

	"fairway/internal/compile/demand"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// bucket names a port of the listeners of a layer.
type bucket struct {
	layer mesh.Layer
	port  uint32
}

func compareBucket(a, b bucket) int {
	return cmp.Or(mesh.CompareLayer(a.layer, b.layer), cmp.Compare(a.port, b.port))
}

// declarePorts finds the ports that some listener of a layer takes: one row a layer, which does not change while others
// claim a port that is claimed already.
func (t *Tables) declarePorts() {
	one := table.Keys(t.Slots, "listener/ports", compareBucket, func(s Slot, _ *Contest) []bucket {
		return []bucket{{s.Layer, s.Port}}
	})
	t.ports = table.Group(one, "listener/ports by layer", mesh.CompareLayer, func(b bucket, _ struct{}) []mesh.Layer {
		return []mesh.Layer{b.layer}
	})
}

// declareVirtual builds virtualOutbound, which takes every intercepted connection on its way out and hands it to the listener of its
// destination. If no listener takes it, the outbound policy decides whether it goes on. A namespace has Public's, unless virtualOutbound
// has to leave ports alone, and the namespace has more of them.
func (t *Tables) declareVirtual() {
	t.Virtual = table.Derive(t.views.Table, "listener/virtual outbound", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, v demand.View, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if demand.Interception.Of(v) == mesh.None {
				return
			}
			set, _ := table.Get(r, t.settings, v.Layer)
			set = set.of(v)
			if v.Layer.Kind == mesh.NamespaceLayer {
				if _, has := table.Get(r, t.ports, v.Layer); !has || !set.ByName {
					return
				}
			}
			l, needs := virtualOutbound(set, v)
			if set.ByName {
				l.Chains = append(l.Chains, set.named(&needs))
				// A listener hands a connection over by its original destination. Envoy restores this address only after the other
				// listener filters, and never if one of these timed out.
				l.Filters.OriginalDst = true
				l.Filters.HTTP, l.DetectionTimeout = t.namedPorts(r, v.Layer), cmp.Or(set.Detection, undetected)
			}
			e := envoy.Encode(listener.Build(l))
			e.Needs = set.Log.Telemetry.With(needs)
			emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: l.Name}, e)
		})
}

func virtualOutbound(set settings, v demand.View) (l listener.Listener, needs []string) {
	hole, rest := set.to(blackHole), set.rest(true)
	needs = append(hole.Needs(), rest.Needs()...)
	return listener.Listener{
		Name: listener.VirtualOutbound, Address: demand.Families.Of(v).Any(), Also: demand.Families.Of(v).AlsoAny(), Port: set.Outbound,
		Direction: listener.Outbound,
		HandOver:  true, Transparent: demand.Interception.Of(v) == mesh.TProxy, KeepOnFailedHealth: true, AccessLog: set.Log.ForNoRoute(),
		// A connection to the listener itself would be sent to itself again, without end.
		Chains:  []listener.Chain{{Name: "virtualOutbound-blackhole", Match: listener.Match{Port: set.Outbound}, Filters: hole.Filters()}},
		Default: &listener.Chain{Name: "virtualOutbound-catchall-tcp", Filters: rest.Filters()},
	}, needs
}

// undetected is how long virtualOutbound waits for a client's first bytes if the mesh sets no time. A client that sends none then gets
// through by its address.
const undetected = time.Second

// named routes requests to the names that they are for.
func (s settings) named(needs *[]string) listener.Chain {
	*needs = append(*needs, cluster.ByNameName)
	http := s.http(listener.VirtualOutbound + "_" + route.UnknownByName)
	http.Routes, http.Resolve = route.Outbound(route.UnknownByName, route.CatchAllHost(route.ByName())), s.Answers
	return listener.Chain{
		Name: "virtualOutbound-catchall-tcp-http", Match: listener.Match{ApplicationProtocols: listener.HTTPProtocols()},
		Filters: http.Filters(),
	}
}

// namedPorts returns the ports on which virtualOutbound looks for requests. Envoy looks before it hands a connection over. A connection
// that another listener takes would wait for nothing, and without end if the server speaks first.
func (t *Tables) namedPorts(r *table.Reader, l mesh.Layer) listener.Inspect {
	except := mesh.ServerFirstPorts()
	layers := []mesh.Layer{l}
	if l.Kind == mesh.NamespaceLayer {
		layers = append(layers, mesh.Public)
	}
	for _, l := range layers {
		rows, _ := table.Get(r, t.ports, l)
		for b := range rows.All() {
			except = append(except, b.port)
		}
	}
	slices.Sort(except)
	return listener.Inspect{On: true, Except: slices.Compact(except)}
}
