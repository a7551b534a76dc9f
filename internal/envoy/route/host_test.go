package route

import (
	"slices"
	"testing"
	"unicode/utf8"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
)

func TestAliases(t *testing.T) {
	const suffix = "cluster.local"
	for _, c := range []struct {
		name   string
		host   mesh.Host
		client string
		want   []string
	}{
		{
			"same namespace", "reviews.prod.svc.cluster.local", "prod",
			[]string{"reviews.prod.svc.cluster.local.", "reviews.prod.svc", "reviews.prod", "reviews"},
		},
		{
			"other namespace", "reviews.prod.svc.cluster.local", "web",
			[]string{"reviews.prod.svc.cluster.local.", "reviews.prod.svc", "reviews.prod"},
		},
		{
			"any namespace", "reviews.prod.svc.cluster.local", "",
			[]string{"reviews.prod.svc.cluster.local.", "reviews.prod.svc", "reviews.prod"},
		},
		{"external", "www.example.com", "prod", []string{"www.example.com."}},
		{"absolute", "www.example.com.", "prod", nil},
		{"address", "10.0.0.1", "prod", nil},
		{"wildcard", "*.prod.svc.cluster.local", "prod", []string{"*.prod.svc.cluster.local."}},
		{"headless pod", "web-0.web.prod.svc.cluster.local", "prod", []string{"web-0.web.prod.svc.cluster.local."}},
		{"suffix only", "prod.svc.cluster.local", "prod", []string{"prod.svc.cluster.local."}},
		{"other domain", "reviews.prod.svc.example.org", "prod", []string{"reviews.prod.svc.example.org."}},
	} {
		if got := Aliases(c.host, c.client, suffix); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAddressDomains(t *testing.T) {
	got := AddressDomains([]string{"10.0.0.1", "10.0.0.1", "fd00::1", "10.1.0.0/16", "10.2.0.1/32", "0.0.0.0", "not one"})
	if want := []string{"10.0.0.1", "[fd00::1]", "10.2.0.1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGatewaysAreQualified(t *testing.T) {
	rule := Rule{
		Namespace: "ns",
		Spec: &networking.VirtualService{
			Gateways: []string{"mesh", "edge", "infra/edge", "old.infra.svc.cluster.local", "a.b", "./c"},
		},
	}
	want := []string{"mesh", "ns/edge", "infra/edge", "infra/old", "b/a", "ns/c"}
	if got := Gateways(rule); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Gateways(Rule{Spec: &networking.VirtualService{}}); !slices.Equal(got, []string{Mesh}) {
		t.Errorf("without gateways: got %q", got)
	}
}

func TestSources(t *testing.T) {
	spec := &networking.VirtualService{
		Http: []*networking.HTTPRoute{
			{Match: []*networking.HTTPMatchRequest{{SourceLabels: map[string]string{"b": "1", "a": "2"}}, {SourceNamespace: "x"}}},
		},
		Tcp: []*networking.TCPRoute{
			{Match: []*networking.L4MatchAttributes{{SourceLabels: map[string]string{"a": "2", "b": "1"}, SourceNamespace: "x"}}},
		},
		Tls: []*networking.TLSRoute{{Match: []*networking.TLSMatchAttributes{{SourceLabels: map[string]string{"c": "1"}}}}},
	}
	if got := Sources(spec); !slices.Equal(got, []mesh.Labels{"a=2,b=1", "c=1"}) {
		t.Errorf("labels %q", got)
	}
	if got := SourceNamespaces(spec); !slices.Equal(got, []string{"x"}) {
		t.Errorf("namespaces %q", got)
	}
}

func TestEncodeConfig(t *testing.T) {
	complete := envoy.Encode(Outbound("80", CatchAllHost(Passthrough())))
	vhds := Encode(Outbound("80", CatchAllHost(Passthrough())))
	if complete.Err != nil || vhds.Err != nil {
		t.Fatal(complete.Err, vhds.Err)
	}
	if complete.WithoutVHDS != nil || vhds.WithoutVHDS == nil || vhds.WithoutVHDS.Prefix != "80/" {
		t.Errorf("bare forms: %v, %v", complete.WithoutVHDS, vhds.WithoutVHDS)
	}
	if string(vhds.WithoutVHDS.Body) != string(complete.Body) {
		t.Error("the bare form is not the configuration without vhds")
	}
	var c routev3.RouteConfiguration
	if err := proto.Unmarshal(vhds.Body, &c); err != nil || c.GetVhds().GetConfigSource().GetAds() == nil {
		t.Error("no vhds over ADS", err)
	}
}

// TestWhoCalls: requests to others carry the proxy's own claim, whatever clients send; requests to the workload carry none.
func TestWhoCalls(t *testing.T) {
	out, in := Outbound("80"), Inbound("80")
	for _, c := range []*routev3.RouteConfiguration{out, in} {
		if got := c.GetRequestHeadersToRemove(); !slices.Equal(got, []string{"x-fairway-caller"}) {
			t.Errorf("removed: %q", got)
		}
	}
	if got := in.GetRequestHeadersToAdd(); len(got) > 0 {
		t.Errorf("the workload is told %v", got)
	}
	if got := out.GetRequestHeadersToAdd(); len(got) != 1 || got[0].GetHeader().GetKey() != "x-fairway-caller" ||
		got[0].GetHeader().GetValue() != "%ENVIRONMENT(FAIRWAY_CALLER)%" {
		t.Errorf("added: %v", got)
	}
}

func TestMergePutsCatchAllLast(t *testing.T) {
	all := func(name string) *routev3.Route { return &routev3.Route{Name: name, Match: anyPath()} }
	one := func(name string) *routev3.Route {
		return &routev3.Route{Name: name, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/" + name}}}
	}
	var names []string
	for _, r := range Merge([]*routev3.Route{one("a"), all("b")}, []*routev3.Route{one("c"), all("d")}) {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"a", "c", "b"}) {
		t.Errorf("got %q", names)
	}
}

func TestHash(t *testing.T) {
	hash := func(lb *networking.LoadBalancerSettings_ConsistentHashLB) []*routev3.RouteAction_HashPolicy {
		p, err := Hash(lb)
		if err != nil {
			t.Error(err)
		}
		return p
	}
	byHeader := (&networking.LoadBalancerSettings_ConsistentHashLB{
		HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: "x-user"},
	})
	bySource := (&networking.LoadBalancerSettings_ConsistentHashLB{
		HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp{UseSourceIp: true},
	})
	byQuery := (&networking.LoadBalancerSettings_ConsistentHashLB{
		HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName{HttpQueryParameterName: "q"},
	})
	byCookie := (&networking.LoadBalancerSettings_ConsistentHashLB{HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie{
		HttpCookie: &networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie{Name: "user", Path: "/"}}})
	if got := hash(byHeader); len(got) != 1 || got[0].GetHeader().GetHeaderName() != "x-user" {
		t.Error("header", got)
	}
	if got := hash(bySource); len(got) != 1 || !got[0].GetConnectionProperties().GetSourceIp() {
		t.Error("source", got)
	}
	if got := hash(byQuery); len(got) != 1 || got[0].GetQueryParameter().GetName() != "q" {
		t.Error("query", got)
	}
	if got := hash(byCookie); len(got) != 1 || got[0].GetCookie().GetName() != "user" || got[0].GetCookie().GetPath() != "/" {
		t.Error("cookie", got)
	}
	if hash(nil) != nil {
		t.Error("a hash of nothing")
	}
	for _, name := range []string{"", "bad\nname"} {
		if got, err := Hash(
			&networking.LoadBalancerSettings_ConsistentHashLB{
				HashKey: &networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName{HttpHeaderName: name},
			},
		); got != nil ||
			err == nil {
			t.Errorf("a header named %q: %v, %v", name, got, err)
		}
	}
	if got := addHash(hash(byHeader), append(hash(byHeader), hash(bySource)...)); len(got) != 2 {
		t.Error("joined", got)
	}
}

// FuzzHTTP holds that no rule, however wrong, becomes a route that Envoy's own validation refuses.
func FuzzHTTP(f *testing.F) {
	f.Add("/a", "/b(", "x-h", "v%", "host", "\\1", "503,reset", int32(3), uint32(302), 50.0)
	f.Add("", "", "", "", "", "", "", int32(-1), uint32(0), -1.0)
	f.Add("/a\x00", "(?<n>a)", ":path", "%REQ(x)%", "\r\n", "\\", "200,,a", int32(1<<30), uint32(99999), 1e300)
	f.Fuzz(func(t *testing.T, path, re, name, value, host, subst, retryOn string, weight int32, code uint32, percent float64) {
		for _, s := range []string{path, re, name, value, host, subst, retryOn} {
			if !utf8.ValidString(s) {
				t.Skip("documents are UTF-8")
			}
		}
		sm := func(s string) *networking.StringMatch {
			return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: s}}
		}
		reg := &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: re}}
		to := &networking.Destination{Host: host}
		headers := &networking.Headers{
			Request: &networking.Headers_HeaderOperations{Set: map[string]string{name: value, "host": host}, Remove: []string{name}},
		}
		spec := &networking.VirtualService{Http: []*networking.HTTPRoute{
			{
				Match: []*networking.HTTPMatchRequest{
					{
						Uri:         sm(path),
						Headers:     map[string]*networking.StringMatch{name: sm(value)},
						QueryParams: map[string]*networking.StringMatch{name: reg},
					},
					{Uri: reg, WithoutHeaders: map[string]*networking.StringMatch{name: reg}, Method: sm(value)},
				},
				Route: []*networking.HTTPRouteDestination{
					{Destination: to, Weight: weight, Headers: headers},
					{Destination: to, Weight: 1},
				},
				Rewrite: &networking.HTTPRewrite{
					Uri:             path,
					Authority:       host,
					UriRegexRewrite: &networking.RegexRewrite{Match: re, Rewrite: subst},
				},
				Retries:          &networking.HTTPRetry{Attempts: weight, RetryOn: retryOn},
				Headers:          headers,
				MirrorPercentage: &networking.Percent{Value: percent},
				Mirror:           to,
				Fault: &networking.HTTPFaultInjection{Abort: &networking.HTTPFaultInjection_Abort{
					Percentage: &networking.Percent{
						Value: percent,
					},
					ErrorType: &networking.HTTPFaultInjection_Abort_HttpStatus{HttpStatus: weight},
				}},
				CorsPolicy: &networking.CorsPolicy{AllowOrigins: []*networking.StringMatch{sm(path), reg}},
			},
			{
				Match: []*networking.HTTPMatchRequest{{Uri: sm(path)}},
				Redirect: &networking.HTTPRedirect{
					Uri:           path,
					Authority:     host,
					RedirectCode:  code,
					PrefixRewrite: value,
					RedirectPort:  &networking.HTTPRedirect_Port{Port: code},
				},
			},
			{
				DirectResponse: &networking.HTTPDirectResponse{
					Status: code,
					Body:   &networking.HTTPBody{Specifier: &networking.HTTPBody_String_{String_: value}},
				},
			},
		}}
		b := testBuilder(Viewer{Gateways: []string{Mesh}, Port: 80})
		for _, r := range b.HTTP(Rule{Namespace: "ns", Name: "n", Spec: spec}) {
			if err := r.ValidateAll(); err != nil {
				t.Errorf("refused: %v\n%v", err, r)
			}
			if e := envoy.Encode(Host("h:80", []string{"h"}, []*routev3.Route{r})); e.Err != nil {
				t.Errorf("not encoded: %v", e.Err)
			}
		}
	})
}

func BenchmarkVirtualHost(b *testing.B) {
	spec := &networking.VirtualService{Http: []*networking.HTTPRoute{
		{Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/v2"}}}},
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "reviews", Subset: "v2"}}}},
		{Route: []*networking.HTTPRouteDestination{
			{
				Destination: &networking.Destination{Host: "reviews", Subset: "v1"},
				Weight:      90,
			},
			{Destination: &networking.Destination{Host: "reviews", Subset: "v2"}, Weight: 10},
		}},
	}}
	host := mesh.Host("reviews.default.svc.cluster.local")
	b.Run("default", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := Default(Target{Cluster: mesh.ClusterKey{Host: host, Port: 80}}, DefaultRetry(nil))
			envoy.Encode(Host(HostName(host, 80), append(Aliases(host, "", "cluster.local"), string(host)), []*routev3.Route{r}))
		}
	})
	b.Run("rule", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder := testBuilder(Viewer{Gateways: []string{Mesh}, Port: 80})
			routes := builder.HTTP(Rule{Namespace: "default", Name: "reviews", Spec: spec})
			envoy.Encode(Host(HostName(host, 80), append(Aliases(host, "", "cluster.local"), string(host)), routes))
		}
	})
}

// TestEncodeRefused: routes that Envoy would refuse have no form for clients without VHDS either.
func TestEncodeRefused(t *testing.T) {
	c := Outbound("80", &routev3.VirtualHost{Name: "no domains"})
	if got := Encode(c); got.Err == nil || got.WithoutVHDS != nil {
		t.Errorf("%v, %v", got.Err, got.WithoutVHDS)
	}
}
