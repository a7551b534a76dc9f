package listener_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/envoy/tls"
	"fairway/internal/golden"
	"fairway/internal/mesh"
)

// requestFilter and connectionFilter are filters of a name that let everything pass.
func requestFilter(name string) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(&httprbacv3.RBAC{})}}
}

func connectionFilter(name string) *listenerv3.Filter {
	config := envoy.Any(&networkrbacv3.RBAC{StatPrefix: name})
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config}}
}

// cases are listeners of every sort that the mesh has; each has a golden file of its name.
func cases() []listener.Listener {
	stdout := listener.AccessLog{File: "/dev/stdout"}
	pass := listener.TCP{
		StatPrefix: "PassthroughCluster",
		Clusters:   []listener.Weighted{{Cluster: "PassthroughCluster"}},
		AccessLog:  stdout,
	}
	hole := listener.TCP{StatPrefix: "BlackHoleCluster", Clusters: []listener.Weighted{{Cluster: "BlackHoleCluster"}}}
	counted := listener.HTTP{
		Side:       listener.SidecarInbound,
		StatPrefix: "inbound_0.0.0.0_9200",
		RouteName:  "in",
		AccessLog:  listener.AccessLog{Count: listener.Destination},
	}
	var more listener.Phased
	for at, name := range map[listener.Phase]string{
		listener.Last: "d-last", listener.Statistics: "c-statistics", listener.Authorization: "b-authorization",
		listener.Authentication: "a-authentication",
	} {
		more = more.WithHTTP(at, requestFilter(name), requestFilter(name+"-2")).WithConnections(at, connectionFilter(name))
	}
	return []listener.Listener{
		{
			Name:      "phases",
			Address:   "0.0.0.0",
			Port:      8080,
			Direction: listener.Inbound,
			Chains: []listener.Chain{
				{
					Match: listener.Match{Port: 8080},
					Route: &listener.HTTP{
						Side:       listener.SidecarInbound,
						StatPrefix: "in",
						RouteName:  "in",
						GRPCWeb:    true,
						Sniffed:    true,
						More:       more,
					},
				},
			},
			Default: &listener.Chain{Forward: &listener.TCP{StatPrefix: "hole", Clusters: hole.Clusters, More: more}},
		},
		{
			Name:               "virtual-outbound",
			Address:            "0.0.0.0",
			Port:               15001,
			Direction:          listener.Outbound,
			HandOver:           true,
			Transparent:        true,
			KeepOnFailedHealth: true,
			AccessLog:          stdout.ForNoRoute(),
			Chains:             []listener.Chain{{Name: "loop", Match: listener.Match{Port: 15001}, Filters: hole.Filters()}},
			Default:            &listener.Chain{Name: "rest", Filters: pass.Filters()},
		},
		{
			Name:      "http-routes",
			Address:   "0.0.0.0",
			Port:      80,
			Direction: listener.Outbound,
			Unbound:   true,
			Chains: []listener.Chain{
				{
					Filters: listener.HTTP{
						StatPrefix: "outbound_0.0.0.0_80",
						RouteName:  "80",
						Own:        mesh.HTTPSettings{HTTP10: true},
						AccessLog:  listener.AccessLog{File: "/dev/stdout", JSON: true},
					}.Filters(),
				},
			},
		},
		{
			Name:             "sniffed",
			Address:          "10.1.1.1",
			Port:             9000,
			Direction:        listener.Outbound,
			Unbound:          true,
			DetectionTimeout: 3 * time.Second,
			Filters:          listener.ListenerFilters{TLS: listener.Inspect{On: true}, HTTP: listener.Inspect{On: true}},
			Chains: []listener.Chain{
				{
					Match: listener.Match{Transport: listener.RawBuffer, ApplicationProtocols: listener.HTTPProtocols()},
					Filters: listener.HTTP{
						StatPrefix:  "outbound_10.1.1.1_9000",
						RouteName:   "9000",
						Sniffed:     true,
						Normalize:   listener.NormalizeDecodeAndMergeSlashes,
						IdleTimeout: time.Minute,
					}.Filters(),
				},
			},
			Default: &listener.Chain{Filters: pass.Filters()},
		},
		{
			Name:      "inbound",
			Address:   "0.0.0.0",
			Port:      15006,
			Direction: listener.Inbound,
			Filters: listener.ListenerFilters{
				OriginalDst:    true,
				OriginalSource: true,
				TLS:            listener.Inspect{On: true, Ports: []uint32{443, 8443}},
				HTTP:           listener.Inspect{On: true, Ports: []uint32{9000}},
			},
			Chains: []listener.Chain{
				{Name: "hole", Match: listener.Match{Port: 15006}, Filters: hole.Filters()},
				{
					Name:  "web",
					Match: listener.Match{Port: 8080},
					Filters: listener.HTTP{
						Side:       listener.SidecarInbound,
						StatPrefix: "inbound_0.0.0.0_8080",
						RouteName:  "in",
						GRPCWeb:    true,
					}.Filters(),
				},
			},
			Default: &listener.Chain{Filters: pass.Filters()},
		},
		{
			Name:      "counted",
			Address:   "0.0.0.0",
			Port:      9100,
			Direction: listener.Inbound,
			Chains: []listener.Chain{
				{
					Match: listener.Match{Port: 9100},
					Filters: listener.HTTP{Side: listener.SidecarInbound, StatPrefix: "inbound_0.0.0.0_9100", RouteName: "in",
						AccessLog: listener.AccessLog{Count: listener.Destination}}.Filters(),
				},
			},
			Default: &listener.Chain{
				Filters: listener.TCP{
					StatPrefix: "c",
					Clusters:   []listener.Weighted{{Cluster: "c"}},
					AccessLog:  listener.AccessLog{File: "/dev/stdout", Count: listener.Source},
				}.Filters(),
			},
		},
		{
			Name:      "identified",
			Address:   "0.0.0.0",
			Port:      9200,
			Direction: listener.Inbound,
			Filters:   listener.ListenerFilters{TLS: listener.Inspect{On: true}},
			Chains: []listener.Chain{
				{Match: listener.Match{Transport: listener.TLS}, TLS: tls.MeshServer([]string{"td"}, nil, tls.Mesh{}), Route: &counted},
				{Route: &counted},
			},
		},
		{
			Name: "gateway", Address: "::", Port: 443, Direction: listener.Outbound,
			Filters: listener.ListenerFilters{ProxyProtocol: true, TLS: listener.Inspect{On: true}},
			Chains: []listener.Chain{
				{
					Match: listener.Match{ServerNames: []string{"a.example.com", "*.b.example.com"}, Transport: listener.TLS},
					TLS:   tls.Server{ALPN: []string{"h2", "http/1.1"}}.Socket(),
					Filters: listener.HTTP{
						Side:       listener.Gateway,
						StatPrefix: "outbound_0.0.0.0_443",
						RouteName:  "https.443.x.y.z",
						Own: mesh.HTTPSettings{
							TrustedHops: 2, Topology: mesh.AlwaysForwardOnly, Server: "edge",
							NoRequestID: true, NoEnvoyHeaders: true, Port: true,
						},
						HTTP2: true,
					}.Filters(),
				},
				{
					Match: listener.Match{ServerNames: []string{"*"}, Prefixes: []string{"10.0.0.0/8", "192.168.1.1", "fd00::/16"}},
					Filters: listener.TCP{StatPrefix: "split",
						Clusters:    []listener.Weighted{{Cluster: "v1", Weight: 90}, {Cluster: "v2", Weight: 10}, {Cluster: "v3"}},
						IdleTimeout: time.Minute, MaxDuration: time.Hour, HashSource: true, MaxAttempts: 3,
						AccessLog: listener.AccessLog{File: "/dev/null", Format: "%START_TIME%"}}.Filters(),
				},
			},
		},
		{
			Name: "forwarding", Address: "0.0.0.0", Port: 9443, Direction: listener.Inbound,
			Filters: listener.ListenerFilters{TLS: listener.Inspect{On: true}},
			Chains: []listener.Chain{
				{Name: "after the handshake", Match: listener.Match{Transport: listener.TLS}, TLS: tls.Server{}.Socket(), Forward: &hole},
				{Name: "at once", Forward: &hole},
			},
		},
		{
			Name:      "pipe",
			Address:   "unix://@fairway",
			Direction: listener.Outbound,
			Chains: []listener.Chain{
				{
					Filters: listener.HTTP{
						StatPrefix: "p",
						RouteName:  "p",
						Normalize:  listener.NormalizeNone,
						AccessLog: listener.AccessLog{
							File:   "/dev/stderr",
							JSON:   true,
							Format: `{"at":"%START_TIME%","n":{"code":"%RESPONSE_CODE%"}}`,
						},
					}.Filters(),
				},
			},
		},
	}
}

func TestGolden(t *testing.T) {
	again := cases()
	for i, c := range cases() {
		t.Run(c.Name, func(t *testing.T) {
			m := listener.Build(c)
			e := envoy.Encode(m)
			if e.Err != nil {
				t.Fatal(e.Err)
			}
			if !bytes.Equal(e.Body, envoy.Encode(listener.Build(again[i])).Body) {
				t.Error("two builds of the same listener differ")
			}
			compare(t, c.Name, m)
		})
	}
}

func compare(t *testing.T, name string, m *listenerv3.Listener) {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, filepath.Join("testdata", name+".yaml"), string(got))
}

func TestEnvoyTakesEverySort(t *testing.T) {
	var all []*listenerv3.Listener
	for _, c := range cases() {
		for i := range c.Chains {
			c.Chains[i].TLS = nil // certificates are internal/envoy/tls's affair
		}
		all = append(all, listener.Build(c))
	}
	listenertest.Validate(t, all, []string{"PassthroughCluster", "BlackHoleCluster", "v1", "v2", "v3"})
}

func TestNeeds(t *testing.T) {
	many := listener.TCP{
		Clusters: []listener.Weighted{{Cluster: "b", Weight: 1}, {Cluster: "a", Weight: 1}, {Cluster: "c"}, {Cluster: "b", Weight: 2}},
	}
	if got := many.Needs(); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("needs %v, want [a b]", got)
	}
	one := listener.TCP{Clusters: []listener.Weighted{{Cluster: "a"}}}
	if got := one.Needs(); len(got) != 1 || got[0] != "a" {
		t.Errorf("needs %v, want [a]", got)
	}
}

// An idle timeout of none is Envoy's 0, which is not the hour that Envoy takes if nothing is set.
func TestNoIdleTimeout(t *testing.T) {
	for _, c := range []struct {
		is   time.Duration
		want string
	}{{0, "nil"}, {listener.NoTimeout, "0s"}, {time.Minute, "1m0s"}} {
		var proxy tcpproxyv3.TcpProxy
		filter := listener.TCP{StatPrefix: "a", Clusters: []listener.Weighted{{Cluster: "a"}}, IdleTimeout: c.is}.Filter()
		if err := filter.GetTypedConfig().UnmarshalTo(&proxy); err != nil {
			t.Fatal(err)
		}
		got := "nil"
		if d := proxy.GetIdleTimeout(); d != nil {
			got = d.AsDuration().String()
		}
		if got != c.want {
			t.Errorf("an idle timeout of %s is sent as %s, want %s", c.is, got, c.want)
		}
	}
}
