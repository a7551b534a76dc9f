package cluster

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairway/internal/compile/input"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// declareDefaults gathers what the mesh says of every cluster: one row a layer, so that a cluster reads one row and not one a setting.
func declareDefaults[V any](in *input.Tables, layers *table.Table[mesh.Layer, V]) *table.Table[mesh.Layer, *cluster.Defaults] {
	return table.Derive(layers, "cluster defaults", mesh.CompareLayer, sameDefaults,
		func(r *table.Reader, l mesh.Layer, _ V, emit func(mesh.Layer, *cluster.Defaults)) {
			d := defaults(in, r)
			d.StatName = in.OutboundStatName(r)
			emit(l, &d)
		}).Broad()
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
	}
}

func sameDefaults(a, b *cluster.Defaults) bool {
	return proto.Equal(a.ConnectTimeout, b.ConnectTimeout) && proto.Equal(a.Keepalive, b.Keepalive) && a.UpgradeHTTP2 == b.UpgradeHTTP2 &&
		proto.Equal(a.DNSRefresh, b.DNSRefresh) && proto.Equal(a.Pool, b.Pool) && proto.Equal(a.Outlier, b.Outlier) && a.StatName == b.StatName
}

// declareStatic gives each layer that stands alone the clusters that lead to no service. A gateway has no client's destination to pass on to.
func declareStatic(layers *table.Table[mesh.Layer, *cluster.Defaults]) *Published {
	return table.Derive(layers, "static clusters", mesh.CompareResourceKey, envoy.Same,
		func(_ *table.Reader, l mesh.Layer, d *cluster.Defaults, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if l.Kind == mesh.NamespaceLayer {
				return
			}
			shelf := scope.ClusterShelf(l)
			emit(resource(shelf, cluster.BlackHoleName), envoy.Encode(cluster.BlackHole(*d)))
			if l.Kind != mesh.GatewayLayer {
				emit(resource(shelf, cluster.PassthroughName), envoy.Encode(cluster.Passthrough(*d)))
			}
		})
}
