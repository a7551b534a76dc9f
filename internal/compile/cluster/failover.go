package cluster

import (
	"cmp"
	"slices"
	"strconv"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file ranks the endpoints of load assignments for the proxies of a locality: they use the nearest first, and others
// when those are not healthy. What differs from the assignment that all have stands on a shelf above it.

// LoadView is a layer's load assignments, as the proxies of one locality have them.
type LoadView struct {
	Layer mesh.Layer
	From  mesh.Locality // never zero: who does not say where it is has the layer's own
}

func compareLoadView(a, b LoadView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), mesh.CompareLocality(a.From, b.From))
}

// shelf is where those assignments stand that differ. Parts of a locality may hold any character but a slash.
func (v LoadView) shelf() mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "from " + v.From.Region + "/" + v.From.Zone + "/" + v.From.SubZone}
}

// over is the shelf that lies over one of the layer; false: none does.
func (v LoadView) over(below mesh.Shelf) (mesh.Shelf, bool) {
	return v.shelf(), below == mesh.Shelf{Layer: v.Layer}
}

func (v LoadView) String() string { return v.shelf().String() }

func declareLoadViews(proxies *demand.Tables) demand.Views[LoadView] {
	return demand.DeclareViews(proxies, "load views", compareLoadView, func(v LoadView) mesh.Layer { return v.Layer },
		func(p demand.Placement) []LoadView {
			if p.Locality == (mesh.Locality{}) {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) LoadView { return LoadView{l, p.Locality} })
		})
}

// failing is what a policy says of failing over between localities. It is comparable.
type failing struct {
	detects bool   // endpoints that fail are detected; without that nothing fails over
	own     bool   // the DestinationRule says itself how; else the mesh does
	off     bool   // endpoints are used alike wherever they are
	regions string // region → the region that takes over, as text; empty: the nearest does
}

// failingOf is what a setting says. Other ways to tell localities apart than by failing over have no effect yet.
func failingOf(outlier *networking.OutlierDetection, s *networking.LocalityLoadBalancerSetting) failing {
	out := failing{detects: outlier != nil, own: s != nil}
	if s == nil {
		return out
	}
	out.off = s.GetEnabled() != nil && !s.GetEnabled().GetValue() || len(s.GetDistribute()) > 0 || len(s.GetFailoverPriority()) > 0
	for _, f := range s.GetFailover() {
		out.regions += strconv.Quote(f.GetFrom()) + strconv.Quote(f.GetTo())
	}
	return out
}

// to is the region that takes over from another; empty: the text names none.
func (f failing) to(region string) string {
	for rest := f.regions; rest != ""; {
		var pair [2]string
		for i := range pair {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return ""
			}
			pair[i], _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		}
		if pair[0] == region {
			return pair[1]
		}
	}
	return ""
}

// declareMeshFailing holds for each view what the mesh says: a row, so that it is read once a view and not once a target.
func declareMeshFailing(in *input.Tables, views demand.Views[LoadView]) *table.Table[LoadView, failing] {
	return table.Derive(views.Table, "load views/mesh", compareLoadView, table.Same[failing],
		func(r *table.Reader, v LoadView, _ struct{}, emit func(LoadView, failing)) {
			emit(v, failingOf(in.DefaultTrafficPolicy(r).GetOutlierDetection(), in.LocalityLB(r)))
		}).Broad()
}

// nearby is a selection of endpoints as a locality ranks them.
type nearby struct {
	selection
	endpoint.Failover
}

func compareNearby(a, b nearby) int {
	return cmp.Or(
		compareSelection(a.selection, b.selection), mesh.CompareLocality(a.From, b.From), cmp.Compare(a.Failover.To, b.Failover.To),
	)
}

// declareNearLoads makes the load assignments that differ for the proxies of a locality: of targets that detect which
// endpoints fail, where endpoints are in more than one place.
func declareNearLoads(name string, from *table.Table[LoadView, failing], targets *table.Table[Key, *Target], b builder) *Published {
	type term struct {
		layer   mesh.Layer
		detects bool
	}
	pairs := table.Join(from,
		func(v LoadView, f failing) []term {
			if f.detects {
				return []term{{v.Layer, true}, {v.Layer, false}}
			}
			return []term{{v.Layer, true}}
		},
		targets,
		func(k Key, t *Target) []term {
			if _, ok := t.selects(k.Cluster); !ok || t.Failing.own && t.Failing.off {
				return nil
			}
			return []term{{k.Layer, t.Failing.detects}}
		},
		name+"/pairs")
	type pair = table.Pair[LoadView, Key]
	wanted := table.Derive(pairs, name+"/wanted", comparePair, table.Same[nearby],
		func(_ *table.Reader, k pair, both table.Both[failing, *Target], emit func(pair, nearby)) {
			says := both.Right.Failing
			if !says.own {
				says = both.Left
			}
			if says.off {
				return
			}
			s, _ := both.Right.selects(k.Right.Cluster)
			emit(k, nearby{s, endpoint.Failover{From: k.Left.From, To: says.to(k.Left.From.Region)}})
		})
	selected := table.Group(wanted, name+"/selection", compareNearby, func(_ pair, n nearby) []nearby { return []nearby{n} })
	assignments := table.Derive(selected, name+"/assignments", compareNearby, envoy.Same,
		func(r *table.Reader, n nearby, _ table.Rows[pair, nearby], emit func(nearby, *envoy.Encoded)) {
			load := endpoint.Load{
				Cluster:   n.Cluster.String(),
				Port:      n.Port,
				Form:      endpoint.Numeric,
				Endpoints: b.members(r, n.selection),
				Failover:  n.Failover,
			}
			if m := load.Build(); slices.ContainsFunc(
				m.Endpoints,
				func(l *endpointv3.LocalityLbEndpoints) bool { return l.Priority > 0 },
			) {
				emit(n, envoy.Encode(m))
			}
		})
	return table.Derive(wanted, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k pair, n nearby, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if load, ok := table.Get(r, assignments, n); ok {
				emit(resource(k.Left.shelf(), n.Cluster.String()), load)
			}
		})
}

func comparePair(a, b table.Pair[LoadView, Key]) int {
	return cmp.Or(compareLoadView(a.Left, b.Left), CompareKey(a.Right, b.Right))
}

// failingTarget is what a target's policy says.
func failingTarget(p cluster.Policy) failing {
	return failingOf(p.Outlier, p.LoadBalancer.GetLocalityLbSetting())
}
