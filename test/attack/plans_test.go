package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairway/internal/admin/page"
	"fairway/test/plane"
	"fairway/test/rig"
)

// plans are control planes with the same objects and proxies of namespace shop, and with different ones of namespace bank, which exports
// nothing.
func plans(t *testing.T, bank bool) (p *plane.Plane, shop visitor, system visitor) {
	t.Helper()
	p = plane.Start(t, pagesOptions(t))
	p.Apply(t, "shop.yaml", rig.Text(t, "plans-shop.yaml"))
	if bank {
		p.Apply(t, "bank.yaml", rig.Text(t, "plans-bank.yaml"))
	}
	p.Connect(t, plane.Proxy{Name: "web-1", Namespace: "shop"})
	p.Connect(t, plane.Proxy{Name: "edge-1", Namespace: "shop", Type: "router", IP: "10.0.0.7", Labels: map[string]string{"app": "edge"}})
	if bank {
		p.Connect(t, plane.Proxy{Name: "till-1", Namespace: "bank", IP: "10.0.0.8"})
		p.Connect(t, plane.Proxy{
			Name: "vault-1", Namespace: "bank", Type: "router", IP: "10.0.0.9", Labels: map[string]string{"app": "vault"},
		})
	}
	https := "https://" + net.JoinHostPort("127.0.0.1", portOf(t, p.Discovery.HTTPSAddr()))
	as := func(namespace string) visitor {
		return visitor{https, &tls.Config{
			RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc",
			Certificates: []tls.Certificate{workloadPair(t, p, namespace, "web")},
		}}
	}
	return p, as("shop"), as("istio-system")
}

// post sends a body to a page.
func (v visitor) post(t *testing.T, path, kind string, body []byte) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: v.tls}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

func (v visitor) plan(t *testing.T, in page.PlanRequest) (int, string) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return v.post(t, "/debug/planz", "application/json", body)
}

// probes are objects of namespace shop by which a caller may try to find out about namespace bank.
func probes() map[string]string {
	networking := func(kind, name, spec string) string {
		return "apiVersion: networking.istio.io/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	security := func(kind, spec string) string {
		return "apiVersion: security.istio.io/v1\nkind: " + kind + "\nmetadata: {name: probe}\nspec: " + spec + "\n"
	}
	route := func(hosts, gateways, to string) string {
		return fmt.Sprintf("{hosts: [%s], %s http: [{route: [{destination: {host: %s}}]}]}", hosts, gateways, to)
	}
	return map[string]string{
		"a route to bank's host":        networking("VirtualService", "probe", route("reviews", "", "till.bank.svc.cluster.local")),
		"a route to a host like bank's": networking("VirtualService", "probe", route("reviews", "", "tille.bank.svc.cluster.local")),
		"a route to bank's subset":      networking("VirtualService", "probe", route("reviews", "", "{host: till.bank.svc.cluster.local, subset: v1}")),
		"a rule for bank's host":        networking("VirtualService", "probe", route("till.bank.svc.cluster.local", "", "reviews")),
		"a rule for bank's entry":       networking("VirtualService", "probe", route("secret.example", "", "reviews")),
		"a rule for all of bank":        networking("VirtualService", "probe", route("'*.bank.svc.cluster.local'", "", "reviews")),
		"bank's gateway":                networking("VirtualService", "probe", route("a.example", "gateways: [bank/vault],", "reviews")),
		"a gateway like bank's":         networking("VirtualService", "probe", route("a.example", "gateways: [bank/vaul],", "reviews")),
		"bank's delegate":               networking("VirtualService", "probe", "{hosts: [reviews], http: [{delegate: {name: part, namespace: bank}}]}"),
		"traffic for bank": networking("DestinationRule", "probe",
			"{host: till.bank.svc.cluster.local, subsets: [{name: v9, labels: {version: v9}}]}"),
		"traffic for everybody": networking("DestinationRule", "probe", "{host: '*.bank.svc.cluster.local', trafficPolicy: {tls: {mode: DISABLE}}}"),
		"an entry with bank's host": networking("ServiceEntry", "probe",
			"{hosts: [secret.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}"),
		"an entry with the host of bank's Service": networking("ServiceEntry", "probe",
			"{hosts: [till.bank.svc.cluster.local], ports: [{number: 80, name: http, protocol: HTTP}], resolution: NONE}"),
		"an entry with bank's address": networking("ServiceEntry", "probe",
			"{hosts: [mine.example], addresses: [10.77.0.1], ports: [{number: 9000, name: tcp, protocol: TCP}], resolution: STATIC, "+
				"endpoints: [{address: 10.0.0.1}]}"),
		"a gateway by bank's proxies": networking("Gateway", "probe",
			"{selector: {app: vault}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['vault.example']}]}"),
		"a gateway with bank's Secret": networking("Gateway", "probe",
			"{selector: {app: vault}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ['vault.example'], "+
				"tls: {mode: SIMPLE, credentialName: vault}}]}"),
		"a gateway for bank's host": networking("Gateway", "probe",
			"{selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['vault.example', 'bank/*']}]}"),
		"a Sidecar that imports bank": networking("Sidecar", "probe", "{egress: [{hosts: ['bank/*', './*']}]}"),
		"a Sidecar for bank's listener": networking("Sidecar", "probe",
			"{egress: [{port: {number: 9999, name: http, protocol: HTTP}, hosts: ['bank/till.bank.svc.cluster.local']}, {hosts: ['*/*']}]}"),
		"a filter with bank's cluster": "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: probe}\nspec: " +
			"{configPatches: [{applyTo: HTTP_FILTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: INSERT_FIRST, value: " +
			"{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, grpc_service: " +
			"{envoy_grpc: {cluster_name: 'outbound|80||till.bank.svc.cluster.local'}}}}}}]}\n",
		"bank's issuer": security("RequestAuthentication", "{jwtRules: [{issuer: bank, jwksUri: 'http://127.0.0.1:1/keys'}]}"),
		"a policy about bank": security("AuthorizationPolicy",
			"{rules: [{from: [{source: {principals: ['cluster.local/ns/bank/sa/till']}}]}]}"),
		"a policy with a mistake": security("AuthorizationPolicy", "{rules: [{to: [{operation: {methods: [7]}}]}]}"),
	}
}

// TestPlansTellNothingOfOthers: whatever a caller of one namespace tries, the answer of the control plane does not depend on what another
// namespace has and does not export.
func TestPlansTellNothingOfOthers(t *testing.T) {
	_, one, _ := plans(t, true)
	_, other, _ := plans(t, false)
	for _, name := range slices.Sorted(maps.Keys(probes())) {
		in := page.PlanRequest{Documents: []page.PlanDocument{{File: "probe.yaml", Text: probes()[name]}}}
		codeWith, textWith := one.plan(t, in)
		codeWithout, textWithout := other.plan(t, in)
		if codeWith != http.StatusOK || codeWith != codeWithout || textWith != textWithout {
			t.Errorf("%s: with bank %d, without it %d\n%s\n%s", name, codeWith, codeWithout, textWith, textWithout)
		}
		for _, secret := range []string{"10.77.0.2", "10.77.0.9", "till-1", "vault-1", "bank.yaml"} {
			if strings.Contains(textWith, secret) {
				t.Errorf("%s: the answer names %s:\n%s", name, secret, textWith)
			}
		}
	}
}

// TestPlansOfForeignObjects: callers of one namespace may plan objects of this namespace alone, in small numbers, and get no more than its
// proxies' part. Callers of the system namespace may plan all.
func TestPlansOfForeignObjects(t *testing.T) {
	p, shop, system := plans(t, true)
	rule := func(namespace string) page.PlanDocument {
		return page.PlanDocument{File: "v.yaml", Text: "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: " +
			namespace + "}\nspec: {hosts: [reviews.shop.svc.cluster.local], http: [{timeout: 3s, route: [{destination: " +
			"{host: reviews.shop.svc.cluster.local}}]}]}\n"}
	}
	broken := page.PlanDocument{Text: "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: bank}\nspec: 7\n"}
	before := p.Discovery.LastTurn()
	for name, c := range map[string]struct {
		in   page.PlanRequest
		who  visitor
		code int
		text string
	}{
		"its own":             {page.PlanRequest{Documents: []page.PlanDocument{rule("shop")}}, shop, 200, `"namespace": "shop"`},
		"its own, none named": {page.PlanRequest{Gone: []page.PlanKey{{"VirtualService", "shop", "none"}}}, shop, 200, `"proxies": 0`},
		"bank's":              {page.PlanRequest{Documents: []page.PlanDocument{rule("bank")}}, shop, 403, "of another namespace"},
		"bank's, with a mistake": {
			page.PlanRequest{Documents: []page.PlanDocument{broken}}, shop, 403, "of another namespace",
		},
		"bank's beside its own": {
			page.PlanRequest{Documents: []page.PlanDocument{rule("shop"), rule("bank")}}, shop, 403, "of another namespace",
		},
		"the removal of bank's": {
			page.PlanRequest{Gone: []page.PlanKey{{"DestinationRule", "bank", "till"}}}, shop, 403, "of another namespace",
		},
		"the mesh configuration": {page.PlanRequest{Gone: []page.PlanKey{{"MeshConfig", "", "mesh"}}}, shop, 403, "of another namespace"},
		"a kind of others": {page.PlanRequest{Documents: []page.PlanDocument{{
			Text: "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: c}\nspec: {controllerName: a.b/c}\n",
		}}}, shop, 200, "is ignored"},
		"no object":        {page.PlanRequest{Documents: []page.PlanDocument{{Text: "{"}}}, shop, 400, "does not say which object"},
		"a source":         {page.PlanRequest{Source: "memory", Documents: []page.PlanDocument{rule("shop")}}, shop, 403, "may name a source"},
		"nothing":          {page.PlanRequest{}, shop, 400, "empty"},
		"a long file name": {page.PlanRequest{Documents: []page.PlanDocument{{File: strings.Repeat("x", 300), Text: "a: b"}}}, shop, 400, "at most"},
		"many":             {page.PlanRequest{Documents: slices.Repeat([]page.PlanDocument{rule("shop")}, 101)}, shop, 413, "in parts"},
		"much":             {page.PlanRequest{Documents: []page.PlanDocument{{Text: "#" + strings.Repeat("x", 600<<10)}}}, shop, 413, "KiB"},
		"the operator's":   {page.PlanRequest{Documents: []page.PlanDocument{rule("bank")}}, system, 200, `"connected": 4`},
	} {
		if code, text := c.who.plan(t, c.in); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %.600s\nwant %d with %q", name, code, text, c.code, c.text)
		}
	}
	for name, c := range map[string]struct {
		kind, body string
		code       int
	}{
		"a form":        {"application/x-www-form-urlencoded", `{"documents": [{"text": "a: b"}]}`, 415},
		"no JSON":       {"application/json", `{`, 400},
		"more than one": {"application/json", `{"gone": [{"kind": "Gateway", "name": "a"}]} {}`, 400},
		"unknown":       {"application/json", `{"objects": []}`, 400},
		"no UTF-8":      {"application/json", "{\"documents\": [{\"text\": \"\xff\"}]}", 400},
	} {
		if code, text := shop.post(t, "/debug/planz", c.kind, []byte(c.body)); code != c.code {
			t.Errorf("%s: %d %s, want %d", name, code, text, c.code)
		}
	}
	if code, text := shop.ask(t, "/debug/planz"); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", code, text)
	}
	if code, text := shop.post(t, "/debug/syncz", "application/json", []byte("{}")); code != http.StatusMethodNotAllowed {
		t.Errorf("POST to another page: %d %s", code, text)
	}
	if now := p.Discovery.LastTurn(); now.Version != before.Version {
		t.Errorf("plans made turns: %+v, before %+v", now, before)
	}
}
