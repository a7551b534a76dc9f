package cluster_test

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/golden"
	"fairway/internal/mesh"
)

func inboundClusters() []*clusterv3.Cluster {
	d := cluster.Defaults{ConnectTimeout: durationpb.New(10e9)}
	s := &mesh.Service{Key: mesh.ServiceKey{Host: "reviews.default.svc.cluster.local", Namespace: "default"}}
	key := func(port uint32) mesh.ClusterKey { return mesh.ClusterKey{Inbound: true, Port: port} }
	http, tcp := mesh.Port{Name: "http", Number: 80, Protocol: mesh.HTTP}, mesh.Port{Name: "tcp", Number: 82, Protocol: mesh.TCP}
	pool := &networking.ConnectionPoolSettings{
		Tcp:  &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: 3},
		Http: &networking.ConnectionPoolSettings_HTTPSettings{MaxRequestsPerConnection: 4},
	}
	named := d
	named.StatName = "in_%SERVICE%_%SERVICE_PORT%"
	return []*clusterv3.Cluster{
		cluster.Inbound{
			Key:      key(8080),
			Port:     http,
			Services: []*mesh.Service{s},
			Sources:  []string{cluster.LoopbackSource},
			Defaults: d,
		}.Build(),
		cluster.Inbound{
			Key:      key(8081),
			Port:     mesh.Port{Name: "grpc", Number: 81, Protocol: mesh.GRPC},
			Services: []*mesh.Service{s},
			Address:  "127.0.0.1",
			On:       8081,
			Defaults: named,
		}.Build(),
		cluster.Inbound{Key: key(8082), Port: tcp, Address: "unix:///run/app.sock", Defaults: named}.Build(),
		cluster.Inbound{Key: key(8085), Port: tcp, Address: "127.0.0.1", On: 1, Defaults: named, Stands: "own.default"}.Build(),
		cluster.Inbound{Key: key(8083), Port: tcp, Address: "::1", On: 9, Defaults: d, Pool: pool}.Build(),
		cluster.Inbound{Key: key(8084), Port: http, On: 9, Defaults: d, Pool: pool}.Build(),
		cluster.Passthrough(d),
		cluster.BlackHole(d),
		cluster.InboundPassthrough([]string{cluster.LoopbackSource}, d),
	}
}

func TestInboundGolden(t *testing.T) {
	var out strings.Builder
	again := inboundClusters()
	for i, c := range inboundClusters() {
		first, second := envoy.Encode(c), envoy.Encode(again[i])
		if first.Err != nil || !envoy.Same(first, second) {
			t.Errorf("%s: error %v, same when built twice: %v", c.Name, first.Err, envoy.Same(first, second))
		}
		out.WriteString(text(t, tree(t, c)) + "---\n")
	}
	golden.File(t, "testdata/inbound.yaml", out.String())
}

func TestResolve(t *testing.T) {
	random := &networking.LoadBalancerSettings{
		LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_RANDOM},
	}
	hash := &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{
		ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{}}}
	tls := &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}
	port := func(n uint32, lb *networking.LoadBalancerSettings) []*networking.TrafficPolicy_PortTrafficPolicy {
		return []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: n}, LoadBalancer: lb}}
	}
	rule := &networking.DestinationRule{
		TrafficPolicy: &networking.TrafficPolicy{LoadBalancer: random, Tls: tls, PortLevelSettings: port(81, hash)},
		Subsets: []*networking.Subset{
			{Name: "inherits"},
			{Name: "hashes", TrafficPolicy: &networking.TrafficPolicy{LoadBalancer: hash}},
			{Name: "port", TrafficPolicy: &networking.TrafficPolicy{PortLevelSettings: port(80, hash)}},
		},
	}
	for _, c := range []struct {
		subset string
		port   uint32
		want   cluster.Policy
	}{
		{"", 80, cluster.Policy{LoadBalancer: random, TLS: tls}},
		{"", 81, cluster.Policy{LoadBalancer: hash}}, // tls is not inherited
		{"inherits", 80, cluster.Policy{LoadBalancer: random, TLS: tls}},
		{"inherits", 81, cluster.Policy{LoadBalancer: hash}},
		{"hashes", 80, cluster.Policy{LoadBalancer: hash, TLS: tls}},
		{"port", 80, cluster.Policy{LoadBalancer: hash}},
		{"port", 82, cluster.Policy{LoadBalancer: random, TLS: tls}},
		{"unknown", 80, cluster.Policy{LoadBalancer: random, TLS: tls}},
	} {
		got := cluster.Resolve(rule, c.subset, c.port)
		if !got.Equal(c.want) {
			t.Errorf("Resolve(%q, %d) = %v, want %v", c.subset, c.port, got, c.want)
		}
		if (got.Hash() != nil) != (c.want.LoadBalancer == hash) {
			t.Errorf("Resolve(%q, %d).Hash() = %v", c.subset, c.port, got.Hash())
		}
	}
	if got := cluster.Resolve(nil, "v1", 80); got != (cluster.Policy{}) {
		t.Errorf("Resolve without a rule = %v", got)
	}
}

func BenchmarkCluster(b *testing.B) {
	s := &mesh.Service{Key: mesh.ServiceKey{Host: "reviews.default.svc.cluster.local", Namespace: "default"}}
	rule := &networking.DestinationRule{TrafficPolicy: &networking.TrafficPolicy{
		ConnectionPool: &networking.ConnectionPoolSettings{
			Http: &networking.ConnectionPoolSettings_HTTPSettings{MaxRetries: 3, MaxRequestsPerConnection: 5},
		},
		OutlierDetection: &networking.OutlierDetection{Interval: durationpb.New(1e9)},
	}}
	for name, rule := range map[string]*networking.DestinationRule{"plain": nil, "rule": rule} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var size int
			for b.Loop() {
				o := cluster.Outbound{
					Key: mesh.ClusterKey{Port: 80, Host: s.Key.Host}, Service: s, Port: mesh.Port{Number: 80, Protocol: mesh.HTTP},
					Policy: cluster.Resolve(rule, "", 80), Rule: mesh.ObjectRef{Namespace: "default", Name: "reviews"},
					Defaults: cluster.Defaults{ConnectTimeout: durationpb.New(10e9)},
				}
				c, err := o.Build()
				if err != nil {
					b.Fatal(err)
				}
				size = len(envoy.Encode(c).Body)
			}
			b.ReportMetric(float64(size), "bytes/cluster")
		})
	}
}
