package ctl_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway"
	"fairway/test/plane"
)

const handsMesh = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local, reviews.bank.svc.cluster.local, ratings.shop.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
`

// TestCompletion: a shell gets the names of proxies, hosts, kinds and objects. If there is no control plane, or it does not answer, it gets
// nothing, and no error.
func TestCompletion(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Apply(t, "mesh.yaml", handsMesh)
	p.Connect(t, plane.Proxy{Name: "web-1"})
	silent := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(silent)
	for _, c := range []struct {
		line string
		want []string
	}{
		{"pc clusters ", []string{"web-1.shop"}},
		{"ps ", []string{"web-1.shop"}},
		{"dashboard proxy ", []string{"web-1.shop"}},
		{"wait vs/a --proxy ", []string{"web-1.shop"}},
		{"services ", []string{"ratings.shop.svc.cluster.local", "reviews.bank.svc.cluster.local", "reviews.shop.svc.cluster.local"}},
		{"explain se/", []string{"se/shop/reviews"}},
		{"wait nothing/", nil},
	} {
		words := strings.Split(c.line, " ")
		complete := func(address string) []string {
			out := pilotctl(append([]string{"__complete", "--address", address}, words...)...)
			lines, _, _ := strings.Cut(out, ":")
			return strings.Fields(lines)
		}
		if got := complete(p.Discovery.HTTPAddr()); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
		if got := complete("127.0.0.1:1"); len(got) > 0 {
			t.Errorf("%q without a control plane: %q", c.line, got)
		}
	}
	begun := time.Now()
	out := pilotctl("__complete", "--address", slow.URL, "ps", "")
	if strings.Contains(out, "exit code") || time.Since(begun) > 20*time.Second {
		t.Errorf("after %s: %s", time.Since(begun), out)
	}
	for _, c := range [][]string{{"get", "virtuals", "virtualservice"}, {"wait", "virtuals", "virtualservice/"}} {
		if out := pilotctl("__complete", c[0], c[1]); !strings.Contains(out, c[2]+"\n") {
			t.Errorf("%q: %s", c, out)
		}
	}
}

// TestShortHostNames: the beginning of one host names it; of several, they are listed.
func TestShortHostNames(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Apply(t, "mesh.yaml", handsMesh)
	for _, c := range []struct{ args, want, not string }{
		{"services ratings", "SOURCE", "reviews"},
		{"services reviews", "reviews.bank.svc.cluster.local", "ratings"},
		{"services reviews.bank", "SOURCE", "HOST"},
		{"services rev", "no registry has a service rev;", "HOST"},
		{"services -n bank", "there is no service", "HOST"},
	} {
		got := pilotctl(append(strings.Fields(c.args), "--address", p.Discovery.HTTPAddr())...)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: %s", c.args, got)
		}
	}
}

// TestShortVersion: a line for each part, with the commit of a build that knows it.
func TestShortVersion(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Connect(t, plane.Proxy{Name: "web-1"})
	p.Connect(t, plane.Proxy{Name: "web-2", IP: "10.0.0.4"})
	got := pilotctl("version", "--short", "--address", p.Discovery.HTTPAddr())
	want := "client version: test\ncontrol plane version: " + fairway.Version + "\ndata plane version: 1.31.1 (2 proxies)\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEnvoysView: endpoints are those of Envoy's own page, with health and counts. The bootstrap and levels come from Envoy too.
func TestEnvoysView(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/clusters?format=json":
			fmt.Fprint(w, `{"cluster_statuses":[{"name":"a","host_statuses":[{"address":{"socket_address":{"address":"10.0.0.1",`+
				`"port_value":80}},"health_status":{"failed_outlier_check":true},"stats":[{"name":"rq_total","value":"7"}]}]}]}`)
		case "/config_dump?include_eds":
			fmt.Fprint(w, `{"configs":[{"@type":"x/envoy.admin.v3.BootstrapConfigDump","bootstrap":{"node":{"id":"me"}}}]}`)
		case "/server_info":
			fmt.Fprint(w, `{"command_line_options":{"log_level":"warning","component_log_level":"misc:error"}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	for _, c := range []struct{ args, want string }{
		{"pc ep", "ENDPOINT STATUS OUTLIER CHECK CLUSTER LOCALITY REQUESTS ERRORS CONNECTIONS 10.0.0.1:80 HEALTHY FAILED a - 7 0 0"},
		{"pc bootstrap", "FIELD VALUE node id me administration -"},
		{"pc log", "COMPONENT LEVEL all others warning misc error"},
	} {
		got := strings.Join(strings.Fields(pilotctl(append(strings.Fields(c.args), "--admin", at)...)), " ")
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
}

// TestValidate: each object is judged by itself, in a line for each problem.
func TestValidate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", handsMesh+"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n")
	bad := write("bad.yaml", strings.Replace(handsMesh, "STATIC", "STATICK", 1))
	lone := write("lone.yaml", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\n"+
		"spec: {hosts: [a], http: [{route: [{destination: {host: nowhere}}]}]}\n")
	for _, c := range []struct {
		args       []string
		want, last string
	}{
		{[]string{"-f", good}, "2 objects: valid\n", ""},
		{[]string{"-f", lone}, "1 object: valid\n", ""},
		{
			[]string{"-f", bad + "," + good}, bad + ":7: error: ServiceEntry shop/reviews  spec.resolution  (UnknownValue): ",
			"exit code 1: 1 error\n",
		},
		{[]string{"-f", bad, "-o", "github"}, "::error file=", "exit code 1: 1 error\n"},
		{[]string{"-f", filepath.Join(dir, "none.yaml")}, "exit code 2: ", ""},
		{nil, "exit code 2: say with -f", ""},
		{[]string{"-f", good, "-o", "xml"}, "exit code 2: -o xml: want table, json, yaml, oneline, sarif, github", ""},
	} {
		got := pilotctl(append([]string{"validate"}, c.args...)...)
		if !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, c.last) {
			t.Errorf("%v prints %q, want %q and %q", c.args, got, c.want, c.last)
		}
	}
	if got := piped([]byte(handsMesh), "validate", "-f", "-"); got != "1 object: valid\n" {
		t.Errorf("got %q", got)
	}
}
