package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"fairway/internal/admin/page"
	"fairway/internal/ctl"
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

// TestPlansTellNothingOfOthers: whatever a caller of one namespace tries, the answer of the control plane does not depend on what another
// namespace has and does not export.
func TestPlansTellNothingOfOthers(t *testing.T) {
	_, one, _ := plans(t, true)
	_, other, _ := plans(t, false)
	probes, err := txtar.ParseFile("testdata/plans-probes.txtar")
	if err != nil || len(probes.Files) == 0 {
		t.Fatalf("no probes: %v", err)
	}
	for _, probe := range probes.Files {
		name := probe.Name
		in := page.PlanRequest{Documents: []page.PlanDocument{{File: "probe.yaml", Text: string(probe.Data)}}}
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

// timed is a rule of a namespace with a timeout.
func timed(namespace string, n int) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v%d, namespace: %s}\nspec: {hosts: "+
		"[reviews.shop.svc.cluster.local], http: [{timeout: 3s, route: [{destination: {host: reviews.shop.svc.cluster.local}}]}]}\n---\n",
		n, namespace)
}

// TestPlansOfForeignObjects: callers of one namespace may plan objects of this namespace alone, in small numbers, and get no more than its
// proxies' part. Callers of the system namespace may plan all.
func TestPlansOfForeignObjects(t *testing.T) {
	p, shop, system := plans(t, true)
	rule := func(namespace string) page.PlanDocument {
		return page.PlanDocument{File: "v.yaml", Text: timed(namespace, 1)}
	}
	broken := page.PlanDocument{
		Text: "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: bank}\nspec: 7\n",
	}
	gone := func(kind, namespace, name string) page.PlanRequest {
		return page.PlanRequest{Gone: []page.PlanKey{{Kind: kind, Namespace: namespace, Name: name}}}
	}
	before := p.Discovery.LastTurn()
	for name, c := range map[string]struct {
		in   page.PlanRequest
		who  visitor
		code int
		text string
	}{
		"its own":             {page.PlanRequest{Documents: []page.PlanDocument{rule("shop")}}, shop, 200, `"namespace": "shop"`},
		"its own, none named": {gone("VirtualService", "shop", "none"), shop, 200, `"proxies": 0`},
		"bank's":              {page.PlanRequest{Documents: []page.PlanDocument{rule("bank")}}, shop, 403, "of another namespace"},
		"bank's, with a mistake": {
			page.PlanRequest{Documents: []page.PlanDocument{broken}}, shop, 403, "of another namespace",
		},
		"bank's beside its own": {
			page.PlanRequest{Documents: []page.PlanDocument{rule("shop"), rule("bank")}}, shop, 403, "of another namespace",
		},
		"the removal of bank's": {
			gone("DestinationRule", "bank", "till"), shop, 403, "of another namespace",
		},
		"the mesh configuration": {gone("MeshConfig", "", "mesh"), shop, 403, "of another namespace"},
		"a kind of others": {page.PlanRequest{Documents: []page.PlanDocument{{
			Text: "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: c}\nspec: {selfSigned: {}}\n",
		}}}, shop, 200, "is ignored"},
		"a class of gateways, which is in no namespace": {page.PlanRequest{Documents: []page.PlanDocument{{
			Text: "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: c}\nspec: {controllerName: a.b/c}\n",
		}}}, shop, 403, "of another namespace"},
		"no object": {page.PlanRequest{Documents: []page.PlanDocument{{Text: "{"}}}, shop, 400, "does not say which object"},
		"a source": {
			page.PlanRequest{Source: "memory", Documents: []page.PlanDocument{rule("shop")}}, shop, 403, "may name a source",
		},
		"nothing": {page.PlanRequest{}, shop, 400, "empty"},
		"a long file name": {
			page.PlanRequest{Documents: []page.PlanDocument{{File: strings.Repeat("x", 300), Text: "a: b"}}}, shop, 400, "at most",
		},
		"many": {page.PlanRequest{Documents: slices.Repeat([]page.PlanDocument{rule("shop")}, 101)}, shop, 413, "in parts"},
		"much": {
			page.PlanRequest{Documents: []page.PlanDocument{{Text: "#" + strings.Repeat("x", 600<<10)}}}, shop, 413, "KiB",
		},
		"the operator's": {page.PlanRequest{Documents: []page.PlanDocument{rule("bank")}}, system, 200, `"connected": 4`},
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

// TestPilotctlPlansThere: if a user may not have the snapshot, pilotctl asks the control plane for the plan, and says so. If the change is
// too large for that, it names the limit.
func TestPilotctlPlansThere(t *testing.T) {
	p, shop, system := plans(t, true)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	roots := write("roots.pem", p.Discovery.Authority().Roots())
	run := func(who visitor, args ...string) string {
		pair := who.tls.Certificates[0]
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c := ctl.Command("test")
		c.SetArgs(append([]string{
			"plan", "--address", who.base, "--cacert", roots, "--server-name", "istiod.istio-system.svc",
			"--cert", write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
			"--key", write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		}, args...))
		c.SetOut(&out)
		c.SetErr(io.Discard)
		if err := c.ExecuteContext(t.Context()); err != nil {
			fmt.Fprintf(&out, "exit code %d: %v\n", ctl.ExitCode(err), err)
		}
		return strings.ReplaceAll(out.String(), strings.TrimPrefix(who.base, "https://"), "ADDRESS")
	}
	own := write("own.yaml", []byte(timed("shop", 1)+"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"))
	foreign := write("foreign.yaml", []byte(timed("bank", 1)))
	var large bytes.Buffer
	for i := range 21 {
		large.WriteString(timed("shop", i))
	}
	const here = "planned in the control plane: what you may see of it, namespace shop\n"
	for _, c := range []struct {
		who        visitor
		args       []string
		begin, has string
	}{
		{shop, []string{"-f", own}, here + "1 of 2 proxies would be sent something: 1 VirtualHost changed; ", "\nexit code 1: "},
		{shop, []string{"-f", own}, here, "\nnot planned: 1 Deployment: "},
		{shop, []string{"-f", own, "--delete"}, here + "nothing would change for the 2 connected proxies\n", "not planned"},
		{shop, []string{"-f", own, "-o", "json"}, "{\n  \"namespace\": \"shop\",\n  \"connected\": 2,", `"notPlanned"`},
		{
			shop, []string{"-f", foreign},
			"exit code 2: ADDRESS refuses: an object of another namespace: VirtualService bank/v1; callers of namespace shop", "",
		},
		{
			shop, []string{"-f", write("large.yaml", large.Bytes())},
			"exit code 2: the control plane shows its snapshot to the system namespace alone, and plans at most 20 objects of 128 KiB " +
				"itself; these are 21 of ", "plan them in parts",
		},
		{system, []string{"-f", own}, "1 of 4 proxies would be sent something: ", "\nnot planned: 1 Deployment: "},
	} {
		if got := run(c.who, c.args...); !strings.HasPrefix(got, c.begin) || !strings.Contains(got, c.has) {
			t.Errorf("pilotctl plan %v prints\n%s\nwant %q at its beginning, and %q", c.args, got, c.begin, c.has)
		}
	}
}
