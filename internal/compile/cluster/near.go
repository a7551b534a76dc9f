package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/envoy"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file tells the localities of load assignments apart for the proxies of one: they use the nearest first, and others
// when those are not healthy, or each by a share. What differs from the assignment that all have stands on a shelf above it.

// LoadView is a layer's load assignments, as the proxies of one network or locality have them. Proxies that say neither
// have the layer's own.
type LoadView struct {
	Layer mesh.Layer
	Reach Reach
	From  mesh.Locality // zero: localities are not told apart
	// Ranked says that endpoints are ranked by labels, for a client that has the labels Ranks.
	Ranked bool
	Ranks  mesh.Labels
	// Cluster is the proxies', of services that are of each cluster's own (local.go); else empty.
	Cluster string
}

// near says whether the view tells nearer endpoints from farther ones.
func (v LoadView) near() bool { return v.Ranked || v.From != (mesh.Locality{}) }

func compareLoadView(a, b LoadView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), compareReach(a.Reach, b.Reach), mesh.CompareLocality(a.From, b.From),
		compareBool(a.Ranked, b.Ranked), cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Cluster, b.Cluster))
}

// shelf is where those assignments stand that differ. Parts of a locality may hold any character but a slash, and stand last;
// what else a proxy says of itself is quoted, so that no two views have one name.
func (v LoadView) shelf() mesh.Shelf {
	var parts []string
	if v.Cluster != "" {
		parts = append(parts, "of "+strconv.Quote(v.Cluster))
	}
	if v.Reach.Network != "" {
		parts = append(parts, v.Reach.String())
	}
	if v.Ranked {
		parts = append(parts, "ranked by "+strconv.Quote(string(v.Ranks)))
	}
	if v.near() {
		parts = append(parts, "from "+v.From.Region+"/"+v.From.Zone+"/"+v.From.SubZone)
	}
	return mesh.Shelf{Layer: v.Layer, Part: strings.Join(parts, " ")}
}

// over is the shelf that lies over one of the layer; false: none does. That of a locality lies over the network's.
func (v LoadView) over(below mesh.Shelf) (mesh.Shelf, bool) {
	under := LoadView{Layer: v.Layer}
	if v.near() {
		under.Reach = v.Reach
	}
	return v.shelf(), below == under.shelf()
}

func (v LoadView) String() string { return v.shelf().String() }

func declareLoadViews(proxies *demand.Tables) demand.Views[LoadView] {
	return demand.DeclareViews(proxies, "load views", compareLoadView, func(v LoadView) mesh.Layer { return v.Layer },
		func(p demand.Placement) []LoadView {
			if p.Locality == (mesh.Locality{}) && !p.Ranked {
				return nil
			}
			return demand.PerLayer(p, func(l mesh.Layer) LoadView { return loadView(p, l) })
		})
}

func loadView(p demand.Placement, l mesh.Layer) LoadView {
	return LoadView{Layer: l, Reach: reachOf(p), From: p.Locality, Ranked: p.Ranked, Ranks: p.Ranks}
}

// telling is what a policy, or the mesh, says of telling localities apart.
type telling struct {
	detects bool                                    // endpoints that fail are detected; without that nothing fails over
	setting *networking.LocalityLoadBalancerSetting // nil: it does not say how
	// zones has Envoys choose among the zones of a region by themselves: regions alone are told apart. nil: it does not say.
	zones *networking.ZoneAwareLoadBalancerSetting
}

func (f telling) String() string {
	out := fmt.Sprintf("detects=%t off=%t", f.detects, f.off())
	for _, s := range f.setting.GetFailover() {
		out += " " + s.GetFrom() + ">" + s.GetTo()
	}
	for _, label := range f.setting.GetFailoverPriority() {
		out += " by " + label
	}
	for _, s := range f.setting.GetDistribute() {
		out += fmt.Sprint(" ", s.GetFrom(), s.GetTo())
	}
	if f.byZone() {
		out += fmt.Sprint(" zones", f.zones.GetFailover(), f.zones.GetFailoverPriority())
	}
	return out
}

func (f telling) same(o telling) bool {
	return f.detects == o.detects && proto.Equal(f.setting, o.setting) && proto.Equal(f.zones, o.zones)
}

// byZone says whether Envoys choose among zones by themselves.
func (f telling) byZone() bool { return f.zones.GetEnabled().GetValue() }

// off says whether endpoints are used alike wherever they are.
func (f telling) off() bool {
	s := f.setting
	if f.byZone() {
		return false
	}
	return s.GetEnabled() != nil && !s.GetEnabled().GetValue()
}

// acts says whether there is something to do whatever the other one says, the mesh of a policy or the policy of a mesh.
func (f telling) acts() bool { return f.detects || f.byZone() || len(f.setting.GetDistribute()) > 0 }

// or is what a policy says where the mesh says the other.
func (f telling) or(mesh telling) telling {
	f.detects = f.detects || mesh.detects
	if f.zones == nil && f.setting == nil {
		f.zones = mesh.zones
	}
	if f.setting == nil {
		f.setting = mesh.setting
	}
	return f
}

// nearness is what it comes to for the clients of a view; false: all is used alike.
func (f telling) nearness(v LoadView) (endpoint.Nearness, Order, bool) {
	if f.byZone() {
		order := f.regions(v)
		return endpoint.Nearness{}, order, order != ""
	}
	if f.off() {
		return endpoint.Nearness{}, "", false
	}
	if order := orderOf(f.setting.GetFailoverPriority(), v); order != "" {
		return endpoint.Nearness{}, order, f.detects
	}
	if v.From == (mesh.Locality{}) {
		return endpoint.Nearness{}, "", false
	}
	for _, d := range f.setting.GetDistribute() {
		if endpoint.Covers(d.GetFrom(), v.From) {
			return endpoint.Nearness{Shares: endpoint.MakeShares(d.GetTo())}, "", true
		}
	}
	to := takesOver(f.setting.GetFailover(), v.From.Region)
	return endpoint.Nearness{From: v.From, To: to}, "", f.detects && len(f.setting.GetDistribute()) == 0
}

// regions is the order of endpoints by labels, and among those of one rank by region (ZoneAwareLoadBalancerSetting.failover_priority).
func (f telling) regions(v LoadView) Order {
	order := orderOf(f.zones.GetFailoverPriority(), v)
	if v.From.Region == "" {
		return order
	}
	return order.then(v.From.Region, takesOver(f.zones.GetFailover(), v.From.Region))
}

// takesOver is the region that takes over from another; empty: a setting names none.
func takesOver[F interface {
	GetFrom() string
	GetTo() string
}](failover []F, region string) string {
	for _, s := range failover {
		if s.GetFrom() == region {
			return s.GetTo()
		}
	}
	return ""
}

// telling is what the target's policy says, else its service: that holds whether or not endpoints that fail are detected,
// for some may not be there.
func (t *Target) telling() telling {
	own, zones := t.Policy.LoadBalancer.GetLocalityLbSetting(), t.Policy.LoadBalancer.GetZoneAwareLbSetting()
	if own == nil && len(t.Service.Nearest) > 0 {
		return telling{detects: true, setting: &networking.LocalityLoadBalancerSetting{FailoverPriority: t.Service.Nearest}, zones: zones}
	}
	return telling{t.Policy.Outlier != nil, own, zones}
}

// declareMeshTelling holds for each view what the mesh says: a row, so that it is read once a view and not once a target.
func declareMeshTelling(in *input.Tables, name string, views demand.Views[LoadView]) *table.Table[LoadView, telling] {
	return table.Derive(views.Table, name, compareLoadView, telling.same,
		func(r *table.Reader, v LoadView, _ struct{}, emit func(LoadView, telling)) {
			emit(v, telling{in.DefaultTrafficPolicy(r).GetOutlierDetection() != nil, in.LocalityLB(r), in.ZoneAwareLB(r)})
		}).Broad()
}

// reached is a selection of endpoints as the clients of a network, or of a locality, use them.
type reached struct {
	selection
	Reach
	TLS speaks // of clients of a network
	endpoint.Nearness
	Order Order // in place of Nearness, where it says something
}

func compareReached(a, b reached) int {
	return cmp.Or(
		compareSelection(a.selection, b.selection), compareReach(a.Reach, b.Reach), cmp.Compare(a.TLS, b.TLS),
		mesh.CompareLocality(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Shares, b.Shares),
		cmp.Compare(a.Order, b.Order),
	)
}

// declareNearLoads makes the load assignments that differ for the proxies of a locality: of targets that detect which
// endpoints fail, where endpoints are in more than one place, and of those that give localities shares.
func declareNearLoads(name string, from *table.Table[LoadView, telling], targets *table.Table[Key, *Target], b builder) *Published {
	type term struct {
		layer mesh.Layer
		acts  bool // of the target
	}
	pairs := table.Join(from,
		func(v LoadView, f telling) []term {
			if f.acts() {
				return []term{{v.Layer, true}, {v.Layer, false}}
			}
			return []term{{v.Layer, true}}
		},
		targets,
		func(k Key, t *Target) []term {
			own := t.telling()
			if _, ok := t.selects(k.Cluster); !ok || own.off() || t.ownMachine(k) {
				return nil
			}
			return []term{{k.Layer, own.acts()}}
		},
		name+"/pairs")
	wanted := table.Derive(pairs, name+"/wanted", comparePair, table.Same[reached],
		func(_ *table.Reader, k pair, both table.Both[telling, *Target], emit func(pair, reached)) {
			if near, order, some := both.Right.telling().or(both.Left).nearness(k.Left); some {
				s, _ := both.Right.selects(k.Right.Cluster)
				n := reached{selection: s, Reach: k.Left.Reach, Nearness: near, Order: order}
				if n.Network != "" {
					n.TLS = both.Right.speaks()
				}
				emit(k, n)
			}
		})
	return b.over(name, wanted)
}

type pair = table.Pair[LoadView, Key]

// over makes the load assignments that differ from those that lie below, each once for all who want it.
func (b builder) over(name string, wanted *table.Table[pair, reached]) *Published {
	selected := table.Keys(wanted, name+"/selection", compareReached, func(_ pair, n reached) []reached { return []reached{n} }).Broad()
	assignments := table.Derive(selected, name+"/assignments", compareReached, envoy.Same,
		func(r *table.Reader, n reached, _ struct{}, emit func(reached, *envoy.Encoded)) {
			members, differs := b.across(r, n, b.members(r, n.selection))
			load := n.build(n.Nearness, members, b.rank(r, n.Order, members))
			if n.Nearness != (endpoint.Nearness{}) || n.Order != "" {
				ranked := func(l *endpointv3.LocalityLbEndpoints) bool { return l.Priority > 0 }
				differs = n.Shares != "" || slices.ContainsFunc(load.Endpoints, ranked)
			}
			if differs || n.In != "" {
				emit(n, envoy.Encode(load))
			}
		})
	return table.Derive(wanted, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k pair, n reached, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if load, ok := table.Get(r, assignments, n); ok {
				emit(resource(k.Left.shelf(), n.Cluster.String()), load)
			}
		})
}

func comparePair(a, b pair) int {
	return cmp.Or(compareLoadView(a.Left, b.Left), CompareKey(a.Right, b.Right))
}
