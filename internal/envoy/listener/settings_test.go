package listener_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/envoy"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
)

// dubbo are services on a connection of Dubbo.
func dubbo() []listener.DubboService {
	exact := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "get"}}
	return []listener.DubboService{
		{
			Name: mesh.DubboName{Interface: "com.test.A", Group: "g", Version: "1"},
			Routes: []listener.DubboRoute{
				{Method: exact, Clusters: []listener.Weighted{{Cluster: "v1", Weight: 90}, {Cluster: "v2", Weight: 10}, {Cluster: "v3"}}},
				{Clusters: []listener.Weighted{{Cluster: "v3"}}},
			},
		},
		{Routes: []listener.DubboRoute{{Clusters: []listener.Weighted{{Cluster: "v1", Weight: 1}}}}},
	}
}

// telemetry are settings of logs, spans and metrics that differ from the mesh's in everything.
func telemetry() *listener.Telemetry {
	name, config := listener.FileLogger("/var/log/x", listener.TextFormat("line"))
	return &listener.Telemetry{
		Loggers: []listener.Logger{
			{Name: name, Config: envoy.Any(config), Requests: true}, {Name: name + "2", Config: envoy.Any(config), Connections: true},
			{Name: name + "3", Config: envoy.Any(config), Requests: true, Connections: true, Filter: &accesslogv3.AccessLogFilter{
				FilterSpecifier: &accesslogv3.AccessLogFilter_NotHealthCheckFilter{
					NotHealthCheckFilter: &accesslogv3.NotHealthCheckFilter{},
				},
			}},
		},
		Tracing: &hcmv3.HttpConnectionManager_Tracing{Verbose: true},
		Changed: map[string]listener.Metric{
			"requests_total": {Tags: map[string]string{"a": "x", "request_protocol": "y"}}, "response_bytes": {Off: true},
			"tcp_sent_bytes_total": {Without: []string{"reporter", "b"}}, "tcp_received_bytes_total": {Off: true},
		},
		Needs: []string{"logs"},
	}
}

// settingsCases are listeners with the settings that few use.
func settingsCases() []listener.Listener {
	count := listener.AccessLog{File: "/dev/stdout", Count: listener.Source, Telemetry: telemetry()}
	quiet := listener.AccessLog{File: "/dev/stdout", Quiet: true, JSON: true, Format: "no JSON"}
	one := []listener.Weighted{{Cluster: "v1"}}
	web := func(n listener.Normalization) []*listenerv3.Filter {
		return listener.HTTP{Side: listener.SidecarOutbound, StatPrefix: "w", RouteName: "w", Normalize: n, AccessLog: count}.Filters()
	}
	return []listener.Listener{
		{
			Name: "settings", Address: "0.0.0.0", Also: []string{"::"}, Port: 8080, Direction: listener.Outbound,
			AccessLog: quiet.ForNoRoute(),
			Unbound:   true, HandOver: true, FreeBind: true, Transparent: true, KeepOnFailedHealth: true,
			Filters: listener.ListenerFilters{
				ProxyProtocol: true, OriginalDst: true, OriginalSource: true, Destination: true,
				TLS: listener.Inspect{On: true, Ports: []uint32{80, 81}}, HTTP: listener.Inspect{On: true, Except: []uint32{90}},
			},
			Chains: []listener.Chain{
				{Match: listener.Match{Port: 1}, Filters: listener.TCP{StatPrefix: "dubbo", Dubbo: dubbo()}.Filters()},
				{Match: listener.Match{Port: 2}, Filters: listener.TCP{
					StatPrefix: "tcp", Clusters: one, IdleTimeout: time.Minute, MaxDuration: time.Hour, HashSource: true, MaxAttempts: 3,
					Tunnel: listener.Tunnel{Target: "a.test:80", Post: true}, Resolve: dynamic.All, ResolvePort: 443, AccessLog: count,
				}.Filters()},
				{Match: listener.Match{Port: 3}, Filters: listener.Passed{StatPrefix: "passed", Nowhere: "BlackHoleCluster",
					AccessLog: quiet}.Filters()},
				{Match: listener.Match{Port: 4}, Filters: web(listener.NormalizeMergeSlashes)},
				{Match: listener.Match{Port: 5}, Filters: web(listener.NormalizeDecodeAndMergeSlashes)},
				{Match: listener.Match{Port: 6}, Filters: web(listener.NormalizeBase)},
			},
		},
	}
}

func TestSettings(t *testing.T) {
	for _, c := range settingsCases() {
		m := listener.Build(c)
		if e := envoy.Encode(m); e.Err != nil {
			t.Fatal(e.Err)
		}
		compare(t, c.Name, m)
	}
	for said, want := range map[meshconfig.MeshConfig_ProxyPathNormalization_NormalizationType]listener.Normalization{
		meshconfig.MeshConfig_ProxyPathNormalization_DEFAULT:                  listener.NormalizeBase,
		meshconfig.MeshConfig_ProxyPathNormalization_BASE:                     listener.NormalizeBase,
		meshconfig.MeshConfig_ProxyPathNormalization_NONE:                     listener.NormalizeNone,
		meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:            listener.NormalizeMergeSlashes,
		meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES: listener.NormalizeDecodeAndMergeSlashes,
	} {
		if got := listener.NormalizationOf(said); got != want {
			t.Errorf("%s is %d, want %d", said, got, want)
		}
	}
}

// TestDubboNeeds: a listener waits for the clusters of all its routes.
func TestDubboNeeds(t *testing.T) {
	all := dubbo()
	if got := (listener.TCP{Dubbo: all, Clusters: []listener.Weighted{{Cluster: "none"}}}).Needs(); !slices.Equal(got,
		[]string{"v1", "v2", "v3"}) {
		t.Errorf("it needs %q", got)
	}
	other := dubbo()
	if !listener.SameDubbo(all[0], other[0]) {
		t.Error("a service is not the same as itself")
	}
	other[0].Routes[0].Clusters[0].Weight = 91
	shorter := dubbo()[0]
	shorter.Routes = shorter.Routes[:1]
	renamed := dubbo()[0]
	renamed.Name.Group = "h"
	for i, o := range []listener.DubboService{other[0], shorter, renamed} {
		if listener.SameDubbo(all[0], o) || listener.SameDubbo(o, all[0]) {
			t.Errorf("%d is the same", i)
		}
	}
}

// TestReplaceTelemetry: a listener after the replacement of its telemetry is the one that is built with the other telemetry.
func TestReplaceTelemetry(t *testing.T) {
	with := func(l listener.Listener, sends, serves listener.AccessLog) *listenerv3.Listener {
		a := sends
		if l.Direction == listener.Inbound {
			a = serves
		}
		if l.Name == listener.VirtualOutbound || l.Direction == listener.Inbound {
			l.AccessLog = a.ForNoRoute()
		}
		chain := func(port uint32) listener.Chain {
			return listener.Chain{Match: listener.Match{Port: port}, Filters: append(
				listener.HTTP{StatPrefix: "h", RouteName: "h", Side: listener.SidecarOutbound, AccessLog: a}.Filters(),
				listener.TCP{StatPrefix: "t", Clusters: []listener.Weighted{{Cluster: "v1"}}, AccessLog: a}.Filters()...,
			)}
		}
		last := chain(0)
		l.Chains, l.Default = []listener.Chain{chain(1), chain(2)}, &last
		return listener.Build(l)
	}
	plain := listener.AccessLog{File: "/dev/stdout", Count: listener.Source}
	other := listener.AccessLog{Count: listener.Destination, Telemetry: telemetry()}
	third := listener.AccessLog{File: "/dev/stderr", Telemetry: &listener.Telemetry{}}
	for _, l := range []listener.Listener{
		{Name: listener.VirtualOutbound, Address: "0.0.0.0", Port: 1, Direction: listener.Outbound},
		{Name: listener.VirtualInbound, Address: "0.0.0.0", Port: 1, Direction: listener.Inbound},
		{Name: "0.0.0.0_80", Address: "0.0.0.0", Port: 80, Direction: listener.Outbound},
	} {
		for _, from := range []listener.AccessLog{plain, other, third} {
			got, want := with(l, from, from), with(l, other, third)
			if err := listener.ReplaceTelemetry(got, other, third); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(envoy.Encode(got).Body, envoy.Encode(want).Body) {
				t.Errorf("%s: %v\nwant %v", l.Name, got, want)
			}
		}
	}
}

// TestSameTelemetry: each setting makes another telemetry.
func TestSameTelemetry(t *testing.T) {
	var none *listener.Telemetry
	if !none.Same(nil) || none.Same(telemetry()) || telemetry().Same(nil) || !telemetry().Same(telemetry()) {
		t.Error("equal ones are not the same")
	}
	for name, change := range map[string]func(*listener.Telemetry){
		"spans":       func(o *listener.Telemetry) { o.Tracing = nil },
		"ids":         func(o *listener.Telemetry) { o.IDs = &hcmv3.RequestIDExtension{} },
		"needs":       func(o *listener.Telemetry) { o.Needs = nil },
		"loggers":     func(o *listener.Telemetry) { o.Loggers = o.Loggers[1:] },
		"name":        func(o *listener.Telemetry) { o.Loggers[0].Name = "x" },
		"requests":    func(o *listener.Telemetry) { o.Loggers[0].Requests = false },
		"connections": func(o *listener.Telemetry) { o.Loggers[0].Connections = true },
		"config":      func(o *listener.Telemetry) { o.Loggers[0].Config = nil },
		"filter":      func(o *listener.Telemetry) { o.Loggers[2].Filter = nil },
		"off":         func(o *listener.Telemetry) { o.Changed["response_bytes"] = listener.Metric{} },
		"tags":        func(o *listener.Telemetry) { o.Changed["requests_total"].Tags["a"] = "z" },
		"without":     func(o *listener.Telemetry) { o.Changed["tcp_sent_bytes_total"].Without[0] = "z" },
		"metrics":     func(o *listener.Telemetry) { delete(o.Changed, "requests_total") },
	} {
		o := telemetry()
		if change(o); o.Same(telemetry()) || telemetry().Same(o) {
			t.Errorf("%s make no difference", name)
		}
	}
	if got := telemetry().With([]string{"z", "a", "logs"}); !slices.Equal(got, []string{"a", "logs", "z"}) {
		t.Errorf("a listener needs %q", got)
	}
	if got := none.With([]string{"z", "a", "a"}); !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("a listener needs %q", got)
	}
}
