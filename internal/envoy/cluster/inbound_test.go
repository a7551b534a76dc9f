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

// TestPolicies: each block of a rule makes another policy, a later block replaces an earlier one, and the mesh's are below.
func TestPolicies(t *testing.T) {
	full := func() *networking.TrafficPolicy {
		return &networking.TrafficPolicy{
			LoadBalancer: &networking.LoadBalancerSettings{WarmupDurationSecs: durationpb.New(1)}, //nolint:staticcheck // any content
			ConnectionPool: &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{
				IdleTimeout: durationpb.New(2), MaxConnectionDuration: durationpb.New(3),
			}},
			OutlierDetection: &networking.OutlierDetection{Interval: durationpb.New(4)},
			Tls:              &networking.ClientTLSSettings{Sni: "a"}, ProxyProtocol: &networking.TrafficPolicy_ProxyProtocol{Version: 1},
			RetryBudget: &networking.TrafficPolicy_RetryBudget{MinRetryConcurrency: 5},
			Tunnel:      &networking.TrafficPolicy_TunnelSettings{TargetPort: 6},
		}
	}
	of := func(p *networking.TrafficPolicy) cluster.Policy {
		return cluster.Resolve(&networking.DestinationRule{TrafficPolicy: p}, "", 80)
	}
	all := of(full())
	if !all.Equal(of(full())) || all.TCPIdleTimeout().AsDuration() != 2 || all.MaxConnectionDuration().AsDuration() != 3 {
		t.Errorf("the policy is %+v", all)
	}
	for name, change := range map[string]func(p *networking.TrafficPolicy){
		"balancer": func(p *networking.TrafficPolicy) { p.LoadBalancer = nil },
		"pool":     func(p *networking.TrafficPolicy) { p.ConnectionPool.Tcp = nil },
		"outliers": func(p *networking.TrafficPolicy) { p.OutlierDetection.Interval = nil },
		"TLS":      func(p *networking.TrafficPolicy) { p.Tls.Sni = "b" },
		"header":   func(p *networking.TrafficPolicy) { p.ProxyProtocol = nil },
		"budget":   func(p *networking.TrafficPolicy) { p.RetryBudget = nil },
	} {
		p := full()
		if change(p); all.Equal(of(p)) || of(p).Equal(all) {
			t.Errorf("the %s makes no difference", name)
		}
	}
	rule := &networking.DestinationRule{TrafficPolicy: full(), Subsets: []*networking.Subset{
		{Name: "v1"},
		{Name: "v2", TrafficPolicy: &networking.TrafficPolicy{Tunnel: &networking.TrafficPolicy_TunnelSettings{TargetPort: 7}}},
	}}
	for subset, want := range map[string]uint32{"": 6, "v1": 6, "v2": 7, "v3": 6} {
		if got := cluster.Tunnel(rule, subset).GetTargetPort(); got != want {
			t.Errorf("subset %q has a tunnel to %d, want %d", subset, got, want)
		}
	}
	if cluster.Tunnel(nil, "v1") != nil {
		t.Error("there is a tunnel without a rule")
	}
}
