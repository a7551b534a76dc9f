package cluster

import (
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// defaultsTable holds the mesh-wide settings of every cluster, for each view of a layer's clusters that some proxy has.
type defaultsTable = table.Table[demand.View, *cluster.Defaults]

// declareDefaults collects the mesh-wide settings of every cluster in one row for each view, so that a cluster reads one row and not one
// for each setting.
func declareDefaults(in *input.Tables, views demand.Views) *defaultsTable {
	return table.Derive(views.Table, "cluster defaults", demand.CompareView, sameDefaults,
		func(r *table.Reader, v demand.View, _ struct{}, emit func(demand.View, *cluster.Defaults)) {
			d := defaults(in, r)
			d.StatName = in.OutboundStatName(r)
			d.Mutual, d.AutoMutual, d.Answers = demand.Mutual.Of(v), in.EnableAutoMTLS(r), in.Answers(r)
			emit(v, &d)
		}).SkipInOrigins()
}

// variants yields the views of a layer's clusters that some proxy has, with the mesh-wide settings for them.
func (b builder) variants(r *table.Reader, l mesh.Layer) iter.Seq2[demand.View, *cluster.Defaults] {
	return func(yield func(demand.View, *cluster.Defaults) bool) {
		for _, v := range variants {
			v = v.In(l)
			if row, ok := table.Get(r, b.defaults, v); ok && !yield(v, row) {
				return
			}
		}
	}
}

func defaults(in *input.Tables, r *table.Reader) cluster.Defaults {
	policy := in.DefaultTrafficPolicy(r)
	return cluster.Defaults{
		ConnectTimeout: durationpb.New(in.ConnectTimeout(r)),
		Keepalive:      in.TCPKeepalive(r),
		UpgradeHTTP2:   in.H2Upgrade(r),
		DNSRefresh:     durationpb.New(in.DNSRefreshRate(r)),
		Pool:           policy.GetConnectionPool(),
		Outlier:        policy.GetOutlierDetection(),
		Localities:     in.LocalityLB(r),
		Zones:          in.ZoneAwareLB(r),
		TLS:            in.TLSDefaults(r),
	}
}

func sameDefaults(a, b *cluster.Defaults) bool {
	return proto.Equal(a.ConnectTimeout, b.ConnectTimeout) && proto.Equal(a.Keepalive, b.Keepalive) && a.UpgradeHTTP2 == b.UpgradeHTTP2 &&
		proto.Equal(a.DNSRefresh, b.DNSRefresh) && proto.Equal(a.Pool, b.Pool) && proto.Equal(a.Outlier, b.Outlier) &&
		proto.Equal(a.Localities, b.Localities) && proto.Equal(a.Zones, b.Zones) && a.TLS.Equal(b.TLS) &&
		a.StatName == b.StatName && a.Mutual == b.Mutual && a.AutoMutual == b.AutoMutual &&
		a.Answers == b.Answers
}

// declareStatic gives every proxy the clusters that lead to no service. Proxies of a namespace's layer get them from Public, the layer
// below.
func declareStatic(in *input.Tables, defaults *defaultsTable) *Published {
	return table.Derive(defaults, "static clusters", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, v demand.View, d *cluster.Defaults, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if v.Layer.Kind == mesh.NamespaceLayer {
				return
			}
			shelf := v.Shelf()
			emit(resource(shelf, cluster.BlackHoleName), envoy.Encode(cluster.BlackHole(*d)))
			if v.Layer.Kind != mesh.GatewayLayer {
				emit(resource(shelf, cluster.PassthroughName), envoy.Encode(cluster.Passthrough(*d)))
				p := in.OutboundPolicy(r)
				byName := p.GetMode() == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS
				if byName || in.ProxyHTTPPort(r) != 0 {
					emit(resource(shelf, cluster.ByNameName), envoy.Encode(cluster.ByName(*d, p.GetTls())))
				}
			}
		})
}
