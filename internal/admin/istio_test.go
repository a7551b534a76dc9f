package admin_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairway/internal/admin/page"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/plane"
)

// istiods are the pages of istiod's /debug, by their paths (Istio 1.31, pilot/pkg/xds/debug.go).
var istiods = []string{
	"pprof/", "pprof/cmdline", "pprof/profile?seconds=1", "pprof/symbol", "pprof/trace?seconds=0.01", "force_disconnect", "ecdsz", "edsz",
	"ndsz", "adsz", "syncz", "registryz", "endpointz", "endpointShardz", "cachez", "configz", "sidecarz", "resourcesz", "instancesz",
	"ambientz", "krtz", "authorizationz", "telemetryz", "config_dump", "push_status", "pushcontext", "connections", "inject", "mesh",
	"clusterz", "networkz", "mcsz", "list",
}

// TestIstiodsPagesAnswer: a script that asks for a page of istiod's gets it, or a sentence that says what to ask instead.
func TestIstiodsPagesAnswer(t *testing.T) {
	opts := plane.Options()
	opts.Profiles = true
	p := plane.Start(t, opts)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	p.Apply(t, "rules.yaml", reviews)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	for _, path := range istiods {
		if testing.Short() && strings.HasPrefix(path, "pprof/profile") {
			continue // it takes a second at least
		}
		queries := []string{"", "proxyID=web-1.shop"}
		if strings.HasPrefix(path, "pprof/") {
			queries = queries[:1]
		}
		for _, query := range queries {
			at := "/debug/" + path + "?" + query
			if strings.Contains(path, "?") {
				at = "/debug/" + path
			}
			status, _, body := ask(t, p, http.MethodGet, at)
			switch {
			case status == http.StatusOK:
			case status == http.StatusBadRequest && strings.HasPrefix(body, "say which proxy") && query == "":
			case status == http.StatusNotFound && strings.Contains(body, " here: ") && len(body) > 40:
			default:
				t.Errorf("GET %s: %d %.200s", at, status, body)
			}
		}
	}
	status, _, body := ask(t, p, http.MethodGet, "/debug/adsz?push=true")
	if status != http.StatusBadRequest || !strings.Contains(body, "syncz") {
		t.Errorf("a push: %d %s", status, body)
	}
	all := read[page.Connected](t, p, "/debug/adsz")
	if all.Total != 1 || len(all.Clients) != 1 || all.Clients[0].Metadata.Namespace != "shop" || len(all.Clients[0].Watches) == 0 {
		t.Errorf("adsz: %+v", all)
	}
	if rules := read[[]page.ObjectInfo](t, p, "/debug/telemetryz"); len(rules) != 0 {
		t.Errorf("telemetryz: %+v", rules)
	}
	if got := read[[]page.Resource](t, p, "/debug/edsz?proxyID=web-1.shop"); len(got) == 0 ||
		!slices.ContainsFunc(got, func(r page.Resource) bool { return strings.HasSuffix(r.Type, "ClusterLoadAssignment") }) {
		t.Errorf("edsz: %+v", got)
	}
}

// kialiStatus are the fields of /debug/syncz that Kiali decodes, and kialiService those of /debug/registryz
// (https://github.com/kiali/kiali, kubernetes/types.go; for services that of an older release).
type kialiStatus struct {
	Cluster       string `json:"cluster_id"`
	Proxy         string `json:"proxy"`
	Version       string `json:"istio_version"`
	ListenerAcked string `json:"listener_acked"`
	EndpointAcked string `json:"endpoint_acked"`
}

type kialiService struct {
	Attributes struct {
		ServiceRegistry, Name, Namespace string
		Labels                           map[string]string
		ExportTo                         map[string]struct{}
		LabelSelectors                   map[string]string
	}
	Ports []struct {
		Name     string `json:"name"`
		Port     int    `json:"port"`
		Protocol string `json:"protocol"`
	} `json:"ports"`
	Hostname        string `json:"hostname"`
	ResourceVersion string
	ClusterVIPs     struct{ Addresses map[string][]string } `json:"clusterVIPs"`
}

// TestKialiReadsPages: Kiali finds a pod's proxy by <pod>.<namespace>, and services in the form of Istio's.
func TestKialiReadsPages(t *testing.T) {
	p := start(t)
	p.Apply(t, "rules.yaml", reviews)
	p.Source.Add(source.Rows{Services: []*mesh.Service{{
		Key:   mesh.ServiceKey{Host: "web.shop.svc.cluster.local", Namespace: "shop", Registry: "Kubernetes/east"},
		Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, ExportTo: []string{"*"}, Addresses: []string{"10.96.0.1"},
		Selects: mesh.MakeLabels(map[string]string{"app": "web"}), Created: 1_700_000_000,
		Clusters: []mesh.ClusterAddresses{{Cluster: "east", Addresses: []string{"10.96.0.1"}}},
		Origin:   mesh.ObjectRef{Kind: "Service", Namespace: "shop", Name: "web"},
	}}})
	p.Connect(t, plane.Proxy{Name: "web-1"})
	p.Connect(t, plane.Proxy{Name: "far-1", Namespace: "far", IP: "10.0.0.7"})
	var proxies []kialiStatus
	decode := func(path string, to any) {
		t.Helper()
		if _, _, body := ask(t, p, http.MethodGet, path); json.Unmarshal([]byte(body), to) != nil {
			t.Fatalf("%s: Kiali cannot decode %s", path, body)
		}
	}
	decode("/debug/syncz?namespace=shop", &proxies)
	if len(proxies) != 1 || proxies[0].Proxy != "web-1.shop" || proxies[0].Cluster != "Kubernetes" || proxies[0].ListenerAcked == "" ||
		proxies[0].EndpointAcked == "" {
		t.Errorf("syncz: %+v", proxies)
	}
	decode("/debug/syncz", &proxies)
	if len(proxies) != 2 {
		t.Errorf("syncz of all namespaces: %+v", proxies)
	}
	var services []kialiService
	decode("/debug/registryz", &services)
	seen := map[string]kialiService{}
	for _, s := range services {
		seen[s.Hostname] = s
	}
	web, reviews := seen["web.shop.svc.cluster.local"], seen["reviews.shop.svc.cluster.local"]
	if a := web.Attributes; a.ServiceRegistry != "Kubernetes" || a.Name != "web" || a.Namespace != "shop" ||
		a.LabelSelectors["app"] != "web" {
		t.Errorf("a Service: %+v", web)
	}
	if _, all := web.Attributes.ExportTo["*"]; !all || web.Ports[0].Port != 80 || web.Ports[0].Protocol != "HTTP" ||
		len(web.ClusterVIPs.Addresses["east"]) != 1 {
		t.Errorf("a Service: %+v", web)
	}
	if reviews.Attributes.ServiceRegistry != "External" || reviews.Attributes.Name != "reviews" {
		t.Errorf("a ServiceEntry: %+v", reviews)
	}
}
