package cluster

import (
	"cmp"
	"fmt"
	"slices"

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

// This file tells the localities of load assignments apart for the proxies of one locality. They use the nearest endpoints first, and
// others when those are not healthy, or each locality by a share. Assignments that differ from the layer's are on a shelf above it.

// localitySetting is the setting of a policy, or of the mesh, for telling localities apart.
type localitySetting struct {
	detects bool                                    // endpoints that fail are detected; without that nothing fails over
	setting *networking.LocalityLoadBalancerSetting // nil: it does not say how
	// zones lets Envoys choose among the zones of a region, so only regions are told apart. nil: the policy does not say.
	zones *networking.ZoneAwareLoadBalancerSetting
}

func (f localitySetting) String() string {
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

func (f localitySetting) same(o localitySetting) bool {
	return f.detects == o.detects && proto.Equal(f.setting, o.setting) && proto.Equal(f.zones, o.zones)
}

// byZone reports whether Envoys choose among zones by themselves.
func (f localitySetting) byZone() bool { return f.zones.GetEnabled().GetValue() }

// off reports whether endpoints are used alike in all localities.
func (f localitySetting) off() bool {
	s := f.setting
	if f.byZone() {
		return false
	}
	return s.GetEnabled() != nil && !s.GetEnabled().GetValue()
}

// acts reports whether this setting alone has an effect, whatever the other one (the mesh's or the policy's) says.
func (f localitySetting) acts() bool {
	return f.detects || f.byZone() || len(f.setting.GetDistribute()) > 0
}

// or merges a policy's setting with the mesh's, which is the fallback.
func (f localitySetting) or(mesh localitySetting) localitySetting {
	f.detects = f.detects || mesh.detects
	if f.zones == nil && f.setting == nil {
		f.zones = mesh.zones
	}
	if f.setting == nil {
		f.setting = mesh.setting
	}
	return f
}

// nearness returns how the clients of a view tell localities apart; false: they use all endpoints alike.
func (f localitySetting) nearness(v viewer) (endpoint.Nearness, Order, bool) {
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

// regions orders endpoints by labels, and those of one rank by region (ZoneAwareLoadBalancerSetting.failover_priority).
func (f localitySetting) regions(v viewer) Order {
	order := orderOf(f.zones.GetFailoverPriority(), v)
	if v.From.Region == "" {
		return order
	}
	return order.then(v.From.Region, takesOver(f.zones.GetFailover(), v.From.Region))
}

// takesOver returns the region that takes over from another; empty: no setting names one.
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

// localitySetting returns the setting of the target's policy, or else of its service. The service's holds even if failing endpoints are not
// detected, because some endpoints may be missing.
func (t *Target) localitySetting() localitySetting {
	own, zones := t.Policy.LoadBalancer.GetLocalityLbSetting(), t.Policy.LoadBalancer.GetZoneAwareLbSetting()
	if own == nil && len(t.Service.Nearest) > 0 {
		nearest := &networking.LocalityLoadBalancerSetting{FailoverPriority: t.Service.Nearest}
		return localitySetting{detects: true, setting: nearest, zones: zones}
	}
	return localitySetting{t.Policy.Outlier != nil, own, zones}
}

// declareMeshLocality holds for each view what the mesh says: a row, so that it is read once a view and not once a target.
func declareMeshLocality(in *input.Tables, views demand.Views) *table.Table[demand.View, localitySetting] {
	return table.Derive(views.Table, views.Name()+"/mesh", demand.CompareView, localitySetting.same,
		func(r *table.Reader, v demand.View, _ struct{}, emit func(demand.View, localitySetting)) {
			emit(v, localitySetting{in.DefaultTrafficPolicy(r).GetOutlierDetection() != nil, in.LocalityLB(r), in.ZoneAwareLB(r)})
		}).SkipInOrigins()
}

// viewer is how the clients of a view use endpoints.
type viewer struct {
	Near
	Reach Reach
}

func viewerOf(v demand.View) viewer { return viewer{near.Of(v), reach.Of(v)} }

// reached is a selection of endpoints as the clients of a network, or of a locality, use them.
type reached struct {
	selection
	Reach
	TLS speaks // of clients of a network
	endpoint.Nearness
	Order Order // replaces Nearness, if set
}

func compareReached(a, b reached) int {
	return cmp.Or(
		compareSelection(a.selection, b.selection), compareReach(a.Reach, b.Reach), cmp.Compare(a.TLS, b.TLS),
		mesh.CompareLocality(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Shares, b.Shares),
		cmp.Compare(a.Order, b.Order),
	)
}

func (t *Target) reached(s selection, v viewer) reached {
	n := reached{selection: s, Reach: v.Reach}
	if n.Network != "" {
		n.TLS = t.speaks()
	}
	return n
}

// byLocality builds the load assignments that differ for the proxies of a locality. They are those of targets that detect failing endpoints
// and have endpoints in more than one place, and of targets that give shares to localities.
func (b builder) byLocality(views demand.Views) loads[localitySetting, reached] {
	return loads[localitySetting, reached]{
		Refinement: demand.Refinement[localitySetting, Key, *Target]{
			Views: declareMeshLocality(b.in, views),
			Takes: func(_ demand.View, f localitySetting) demand.Which {
				if f.acts() {
					return demand.All
				}
				return demand.Some
			},
			Of: func(k Key, t *Target) (mesh.Layer, demand.Which) {
				own := t.localitySetting()
				switch {
				case !t.ownsLoad() || own.off() || t.ownMachine(k):
					return k.Layer, demand.None
				case own.acts():
					return k.Layer, demand.Some
				}
				return k.Layer, demand.All
			},
			Compare: CompareKey,
		},
		Want: func(v demand.View, f localitySetting, k Key, t *Target) (reached, bool) {
			as := viewerOf(v)
			nearness, order, some := t.localitySetting().or(f).nearness(as)
			if !some {
				return reached{}, false
			}
			n := t.reached(t.selection(k.Cluster), as)
			n.Nearness, n.Order = nearness, order
			return n, true
		},
		Order: compareReached, Name: reached.name, Build: b.differing,
	}
}

func (n reached) name() string { return n.Cluster.String() }

// differing returns the load assignment of a selection for the clients of n; nil: it is the same as below.
func (b builder) differing(r *table.Reader, n reached) *envoy.Encoded {
	members, differs := b.across(r, n, b.members(r, n.selection))
	load := n.build(n.Nearness, members, b.rank(r, n.Order, members))
	if n.Nearness != (endpoint.Nearness{}) || n.Order != "" {
		ranked := func(l *endpointv3.LocalityLbEndpoints) bool { return l.Priority > 0 }
		differs = n.Shares != "" || slices.ContainsFunc(load.Endpoints, ranked)
	}
	if differs || n.In != "" {
		return envoy.Encode(load)
	}
	return nil
}
