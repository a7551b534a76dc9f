package admin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/admin/page"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
)

const (
	jsonType = "application/json"
	textType = "text/plain; charset=utf-8"
)

// TestAnswers requests every page with right and wrong queries.
func TestAnswers(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	p.Connect(t, plane.Proxy{Name: "web-1", Namespace: "far", IP: "10.0.0.8"})
	for _, c := range []struct {
		path        string
		status      int
		contentType string
		want        string
	}{
		{"/ready", 200, textType, "ready"},
		{"/healthz/ready", 200, textType, "ready"},
		{"/debug", 200, textType, "/debug/syncz"},
		{"/debug/list", 200, textType, "/debug/problems"},
		{"/debug/nothing", 404, textType, "there is no page /debug/nothing; /debug lists them"},
		{"/debug/pprof/", 200, "text/html; charset=utf-8", "goroutine"},
		{"/debug/syncz", 200, jsonType, "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local"},
		{"/debug/connections", 200, jsonType, "sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local"},
		{"/debug/registryz", 200, jsonType, "reviews.shop.svc.cluster.local"},
		{"/debug/endpointz", 200, jsonType, "10.0.0.1"},
		{"/debug/configz", 200, jsonType, `"kind": "DestinationRule"`},
		{"/debug/configz?kind=nothing", 200, jsonType, "[]"},
		{"/debug/tablez", 200, jsonType, `"name": "endpoints"`},
		{"/debug/tablez?table=endpoints", 200, textType, "10.0.0.1"},
		{"/debug/tablez?table=endpoints&format=json", 200, jsonType, `"table": "endpoints"`},
		{"/debug/tablez?table=endpoints&format=xml", 400, textType, `format "xml": want text or json`},
		{"/debug/tablez?table=endpoints&key=x", 404, textType, `table "endpoints" has no row "x"; /debug/tablez?table=endpoints lists its rows`},
		{"/debug/tablez?table=nothing&key=x", 404, textType, `there is no table "nothing"; /debug/tablez lists them`},
		{"/debug/tablez?table=nothing", 404, textType, `there is no table "nothing"; /debug/tablez lists them`},
		{"/debug/problems", 200, jsonType, "["},
		{"/debug/problems?severity=bad", 400, textType, `severity "bad": want info, warning, error`},
		{"/debug/ndsz", 400, textType, "say which proxy"},
		{"/debug/ndsz?proxyID=web-1.shop", 200, jsonType, "[]"},
		{"/debug/resourcez", 400, textType, "say which proxy"},
		{"/debug/resourcez?proxyID=web-1.shop", 400, textType, "want cds, ecds, eds, lds, rds, vhds or sds"},
		{"/debug/resourcez?proxyID=web-1.shop&type=cds", 200, jsonType, "outbound|80|v1|reviews.shop.svc.cluster.local"},
		{"/debug/resourcez?proxyID=web-1.shop&type=vhds", 200, jsonType, "reviews.shop.svc.cluster.local:80"},
		{
			"/debug/resourcez?proxyID=web-1&type=cds", 400, textType,
			`several proxies fit "web-1", name one of them in full: web-1.far, web-1.shop`,
		},
		{"/debug/resourcez?proxyID=web&type=cds", 404, textType, `no connected proxy is called "web"`},
		{"/debug/config_dump", 400, textType, "say which proxy"},
		{"/debug/config_dump?proxyID=nobody", 404, textType, `no connected proxy is called "nobody"`},
		{"/debug/config_dump?proxyID=web-1.far", 200, jsonType, "type.googleapis.com/envoy.admin.v3.ClustersConfigDump"},
		{"/metrics", 200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "pilot_xds{"},
	} {
		status, contentType, body := ask(t, p, http.MethodGet, c.path)
		if status != c.status || contentType != c.contentType || !strings.Contains(body, c.want) {
			t.Errorf("GET %s: %d %s\n%.300s\nwant %d %s with %q", c.path, status, contentType, body, c.status, c.contentType, c.want)
		}
		if status, _, body := ask(t, p, http.MethodHead, c.path); status != c.status || body != "" {
			t.Errorf("HEAD %s: %d with %d bytes, want %d with none", c.path, status, len(body), c.status)
		}
		if status, _, _ := ask(t, p, http.MethodPost, c.path); status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d, want 405", c.path, status)
		}
	}
}

func TestSyncz(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	all := read[[]page.ProxySync](t, p, "/debug/syncz")
	if len(all) != 1 {
		t.Fatalf("got %d proxies, want 1", len(all))
	}
	s := all[0]
	if s.ProxyType != "sidecar" || s.ClusterID != "Kubernetes" || s.IstioVersion != "1.31.1" || !s.Synced || s.ConnectedAt.IsZero() ||
		len(s.Rejected) > 0 {
		t.Errorf("got %+v", s)
	}
	for typ := range xdstype.Types {
		if n := s.Nonces[typ]; typ.Status() != "" && (n.Sent == "" || n.Sent != n.Acked) {
			t.Errorf("%s: sent %q, acknowledged %q: want the same", typ, n.Sent, n.Acked)
		}
	}
}

// unpack reads a packed message of a type.
func unpack[T proto.Message](t *testing.T, packed *anypb.Any) T {
	t.Helper()
	m, err := packed.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	out, ok := m.(T)
	if !ok {
		t.Fatalf("got a %T", m)
	}
	return out
}

// TestConfigDump: the page has the form of Envoy's admin v3 ConfigDump, and contains the resources of the proxy, in either protocol.
func TestConfigDump(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	for _, x := range []plane.Proxy{{Name: "delta-1"}, {Name: "sotw-1", IP: "10.0.0.8", SotW: true}} {
		t.Run(x.Name, func(t *testing.T) {
			c := p.Connect(t, x)
			_, _, body := ask(t, p, http.MethodGet, "/debug/config_dump?proxyID="+x.Name)
			var dump adminv3.ConfigDump
			if err := protojson.Unmarshal([]byte(body), &dump); err != nil {
				t.Fatal(err)
			}
			if len(dump.Configs) != 5 {
				t.Fatalf("got %d sections, want 5", len(dump.Configs))
			}
			var clusters, listeners, routes, hosts, loads []string
			for _, e := range unpack[*adminv3.ClustersConfigDump](t, dump.Configs[0]).DynamicActiveClusters {
				clusters = append(clusters, unpack[*clusterv3.Cluster](t, e.Cluster).Name)
			}
			for _, e := range unpack[*adminv3.ListenersConfigDump](t, dump.Configs[1]).DynamicListeners {
				listeners = append(listeners, e.Name)
				if l := unpack[*listenerv3.Listener](t, e.ActiveState.Listener); l.Name != e.Name || e.ActiveState.VersionInfo == "" {
					t.Errorf("listener %s is called %s", e.Name, l.Name)
				}
			}
			for _, e := range unpack[*adminv3.RoutesConfigDump](t, dump.Configs[2]).DynamicRouteConfigs {
				config := unpack[*routev3.RouteConfiguration](t, e.RouteConfig)
				routes = append(routes, config.Name)
				for _, h := range config.VirtualHosts {
					hosts = append(hosts, config.Name+"/"+strings.TrimPrefix(h.Name, config.Name+"/"))
				}
			}
			for _, e := range unpack[*adminv3.EndpointsConfigDump](t, dump.Configs[3]).DynamicEndpointConfigs {
				loads = append(loads, unpack[*endpointv3.ClusterLoadAssignment](t, e.EndpointConfig).ClusterName)
			}
			for _, k := range []struct {
				typ string
				got []string
			}{{ads.ClusterType, clusters}, {ads.ListenerType, listeners}, {ads.RouteType, routes}, {ads.EndpointType, loads}} {
				if diff := cmp.Diff(c.Names(k.typ), k.got); diff != "" {
					t.Errorf("%s differ (- what the proxy holds, + the dump):\n%s", ads.Short(k.typ), diff)
				}
			}
			want := []string{"80/allow_any", "80/ratings.shop.svc.cluster.local:80", "80/reviews.shop.svc.cluster.local:80"}
			slices.Sort(hosts)
			if diff := cmp.Diff(want, hosts); diff != "" {
				t.Errorf("virtual hosts differ (- want, + the dump):\n%s", diff)
			}
		})
	}
}

func TestRegistryzSaysWhoWon(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Source.Add(source.Rows{Services: []*mesh.Service{elsewhere()}})
	p.Settle(t)
	won := map[string]bool{}
	for _, s := range read[[]page.ServiceInfo](t, p, "/debug/registryz") {
		if s.Hostname == "reviews.shop.svc.cluster.local" {
			won[s.Registry] = s.Won
			if len(s.Ports) != 1 || s.Ports[0].Port != 80 || s.Ports[0].Protocol != "HTTP" || s.Resolution != "STATIC" {
				t.Errorf("got %+v", s)
			}
		}
	}
	if len(won) != 2 || won["Elsewhere"] == won["ServiceEntry"] {
		t.Errorf("won: %v, want exactly one of both registries", won)
	}
}

func TestEndpointz(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	all := read[[]page.ServiceEndpoints](t, p, "/debug/endpointz")
	if len(all) != 1 || all[0].Service != "reviews.shop.svc.cluster.local (ServiceEntry/shop)" || len(all[0].Endpoints) != 2 {
		t.Fatalf("got %+v, want the two endpoints of reviews", all)
	}
	first := all[0].Endpoints[0]
	if first.Address != "10.0.0.1" || first.Labels != "version=v1" || first.Locality != "north/a" || first.Weight != 3 ||
		first.Health != "HEALTHY" ||
		first.ID == "" {
		t.Errorf("got %+v", first)
	}
}

func TestConfigzByKind(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	all := read[[]page.ObjectInfo](t, p, "/debug/configz?kind=destinationrule")
	if len(all) != 1 || all[0].Kind != "DestinationRule" || all[0].Name != "reviews" || all[0].File != "rules.yaml" || all[0].Line == 0 {
		t.Fatalf("got %+v, want the one rule and its place", all)
	}
	if spec, ok := all[0].Spec.(map[string]any); !ok || spec["host"] != "reviews" {
		t.Errorf("its spec is %v", all[0].Spec)
	}
	if all := read[[]page.ObjectInfo](t, p, "/debug/configz"); len(all) < 3 {
		t.Errorf("got %d objects of all kinds, want the 3 applied", len(all))
	}
}

// TestConfigzLines: the lines of an object's fields are shown if the request names them.
func TestConfigzLines(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	path := "/debug/configz?kind=DestinationRule&namespace=shop&name=reviews"
	all := read[[]page.ObjectInfo](t, p, path+"&field=spec.host&field=spec.nothing")
	if len(all) != 1 || all[0].Lines["spec.host"] <= all[0].Line || all[0].Lines["spec.nothing"] == 0 {
		t.Errorf("got %+v, want lines behind the first", all)
	}
	if all := read[[]page.ObjectInfo](t, p, path); len(all) != 1 || all[0].Lines != nil {
		t.Errorf("got %+v, want no lines", all)
	}
	if all := read[[]page.ObjectInfo](t, p, "/debug/configz?kind=DestinationRule&namespace=bank&name=reviews"); len(all) != 0 {
		t.Errorf("got %+v of another namespace", all)
	}
	if all := read[[]page.ObjectInfo](t, p, "/debug/configz?kind=DestinationRule&namespace=shop&name=none"); len(all) != 0 {
		t.Errorf("got %+v for a name that nothing has", all)
	}
	for host, want := range map[string]int{"reviews.shop.svc.cluster.local": 1, "nothing": 0} {
		if all := read[[]page.ServiceInfo](t, p, "/debug/registryz?host="+host); len(all) != want {
			t.Errorf("registryz has %d services of %s, want %d", len(all), host, want)
		}
		if all := read[[]page.ServiceEndpoints](t, p, "/debug/endpointz?host="+host); len(all) != want {
			t.Errorf("endpointz has %d services of %s, want %d", len(all), host, want)
		}
	}
	status, _, body := ask(t, p, http.MethodGet, path+strings.Repeat("&field=a", mostFieldsNamed+1))
	if status != http.StatusBadRequest || !strings.Contains(body, "fields") {
		t.Errorf("got %d %q, want a refusal", status, body)
	}
}

// mostFieldsNamed is how many fields a request may name.
const mostFieldsNamed = 100

func TestTablez(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	for _, table := range read[[]page.TableInfo](t, p, "/debug/tablez") {
		if table.Name == "endpoints" && table.Rows != 2 {
			t.Errorf("endpoints has %d rows, want 2", table.Rows)
		}
		path := "/debug/tablez?format=json&table=" + strings.ReplaceAll(table.Name, " ", "+")
		if rows := read[page.Table](t, p, path).Rows; len(rows) != table.Rows {
			t.Errorf("%s prints %d of its %d rows", table.Name, len(rows), table.Rows)
		}
	}
	if rows := read[page.Table](t, p, "/debug/tablez?format=json&table=endpoints&filter=10.0.0.2").Rows; len(rows) != 1 {
		t.Errorf("the filter keeps %d rows, want 1", len(rows))
	}
}

// A row's page names its inputs and the rows that depend on it.
func TestTablezExplains(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	const key = "shop/reviews.shop.svc.cluster.local"
	row := read[table.Explanation](t, p, "/debug/tablez?table=services/host&key="+key)
	if len(row.Value) == 0 || row.Value[0] != "1" || len(row.Reads) != 1 || row.Reads[0].Table != "services" {
		t.Errorf("what the services of a host are made of: %+v", row)
	}
	if !slices.ContainsFunc(row.Readers, func(r table.Ref) bool { return r.Table == "merged" }) {
		t.Errorf("who read the services of a host: %+v", row)
	}
}

// TestProblems: by severity, each with the line of its field.
func TestProblems(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Apply(t, "mistakes.yaml", mistakes)
	p.Apply(t, "broken.yaml",
		"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: broken, namespace: shop}\nspec: {hosts: []}\n")
	all := read[[]page.ProblemInfo](t, p, "/debug/problems")
	i := slices.IndexFunc(all, func(p page.ProblemInfo) bool { return p.Code == "UnknownSubset" })
	if i < 0 {
		t.Fatalf("no UnknownSubset in %+v", all)
	}
	if got := all[i]; got.File != "mistakes.yaml" || got.Line != 11 || got.Field != "spec.http[0].route[0].destination.subset" ||
		got.Name != "first" ||
		got.Severity != "error" ||
		got.Fix == "" {
		t.Errorf("got %+v, want line 11", got)
	}
	if got := read[[]page.ProblemInfo](t, p, "/debug/problems?severity=info"); len(got) != len(all) {
		t.Errorf("at least info: %d of %d", len(got), len(all))
	}
	errors := read[[]page.ProblemInfo](t, p, "/debug/problems?severity=error")
	if len(errors) == 0 || len(errors) == len(all) {
		t.Errorf("%d of %d are errors, want some", len(errors), len(all))
	}
	for _, e := range errors {
		if e.Severity != "error" || e.Line == 0 {
			t.Errorf("got %+v among errors, want a severity of error and a line", e)
		}
	}
}
