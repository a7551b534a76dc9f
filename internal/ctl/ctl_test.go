package ctl_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairway"
	"fairway/internal/admin/page"
	"fairway/test/plane"
)

// TestTables looks at a table's rows without saying how other rooms print theirs.
func TestTables(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Apply(t, "services.yaml", `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2}]
`)
	address := p.Discovery.HTTPAddr()
	var tables []page.TableInfo
	if err := json.Unmarshal([]byte(pilotctl("tables", "-o", "json", "--address", address)), &tables); err != nil || len(tables) < 10 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	list := pilotctl("tables", "--address", address)
	if lines := strings.Count(list, "\n"); lines != len(tables)+1 || !strings.HasPrefix(list, "TABLE") {
		t.Errorf("the list of %d tables has %d lines:\n%s", len(tables), lines, list)
	}
	var rows page.Table
	if err := json.Unmarshal([]byte(pilotctl("tables", "endpoints", "10.0.0.2", "-o", "json", "--address", address)), &rows); err != nil {
		t.Fatal(err)
	}
	if rows.Name != "endpoints" || len(rows.Rows) != 1 || !strings.Contains(fmt.Sprint(rows.Rows[0]), "10.0.0.2") {
		t.Errorf("got %+v, want the one endpoint", rows)
	}
	if out := pilotctl("tables", "endpoints", "--address", "http://"+address+"/"); strings.Count(out, "\n") != 3 {
		t.Errorf("got %q, want a header and two rows", out)
	}
}

// TestErrorsSayWhatToDo: the address belongs to another server, or to none.
func TestErrorsSayWhatToDo(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "syncz") {
			http.Error(w, "<html>\n<h1>not here</h1>", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "<html>hello</html>")
	}))
	defer stranger.Close()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{
			[]string{"problems", "--address", nobody},
			[]string{"exit code 1: ask " + nobody, "connection refused", "is pilot-discovery running"},
		},
		{[]string{"proxy-status", "--address", stranger.URL}, []string{"exit code 1", "404", "is --address the --httpAddr"}},
		{[]string{"problems", "--address", stranger.URL}, []string{"exit code 1", "read /debug/problems", "is --address the --httpAddr"}},
		{[]string{"problems", "--address", "a b"}, []string{"exit code 1"}},
		{[]string{"problems", "--addr", nobody}, []string{"exit code 2", "unknown flag: --addr"}},
		{[]string{"problems", "all"}, []string{"exit code 2"}},
	} {
		got := pilotctl(c.args...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("pilotctl %s prints %q, want it to contain %q", strings.Join(c.args, " "), got, want)
			}
		}
	}
}

// TestPortAlone: --httpAddr is written ":8080"; the same text is to reach it.
func TestPortAlone(t *testing.T) {
	p := plane.Start(t, plane.Options())
	_, port, err := net.SplitHostPort(p.Discovery.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	if got := pilotctl("ps", "--address", ":"+port); got != "no proxy is connected\n" {
		t.Errorf("got %q", got)
	}
}

func TestHelpNamesEveryVerb(t *testing.T) {
	got := pilotctl("--help")
	for _, want := range []string{
		"proxy-status", "proxy-config", "problems", "applies", "tables", "version", "check-inject", "remote-clusters", "install",
		"uninstall",
		"--address", "--output", "--kubeconfig", "--context", "--istioNamespace",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("--help lacks %s:\n%s", want, got)
		}
	}
	got = pilotctl("proxy-config")
	for _, want := range []string{"clusters", "listeners", "routes", "endpoints"} {
		if !strings.Contains(got, want) {
			t.Errorf("proxy-config's help lacks %s:\n%s", want, got)
		}
	}
}

// TestVersionAndPages: verbs that need no cluster also work with an address.
func TestVersionAndPages(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Connect(t, plane.Proxy{Name: "web-1"})
	address := p.Discovery.HTTPAddr()
	got := strings.Join(strings.Fields(pilotctl("version", "--address", address)), " ")
	if want := "WHAT VERSION HOW MANY client test - control plane " + fairway.Version + " 1 data plane 1.31.1 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := pilotctl("version", "--remote=false", "-o", "json"); !strings.Contains(got, `"clientVersion": "test"`) {
		t.Errorf("got %q", got)
	}
	if got := pilotctl("x", "internal-debug", "config_dump?proxyID=web-1.shop", "--address", address); !strings.Contains(got, `"configs"`) {
		t.Errorf("got %.200q", got)
	}
	if got := pilotctl("x", "internal-debug", "nothing", "--address", address); !strings.Contains(got, "there is no page /debug/nothing") {
		t.Errorf("got %q", got)
	}
	if got := pilotctl("x", "internal-debug", "https://elsewhere/syncz", "--address", address); !strings.Contains(got, "is not a page") {
		t.Errorf("got %q", got)
	}
}

// TestRemoteClusters: the control plane's state of other clusters is shown in columns.
func TestRemoteClusters(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/clusterz" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `[{"id":"east","secretName":"istio-system/east","syncStatus":"synced","istiodID":"istiod-1"},{"id":"west"}]`)
	}))
	defer s.Close()
	got := strings.Join(strings.Fields(pilotctl("remote-clusters", "--address", s.URL)), " ")
	if want := "NAME SECRET STATUS ISTIOD east istio-system/east synced istiod-1 west - - -"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWithoutKubeconfig: if nothing names a cluster, this machine's control plane is asked; a name of no cluster is an error.
func TestWithoutKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	if got := pilotctl("problems", "--kubeconfig", "/nowhere/at/all"); !strings.Contains(got, "exit code 1: --kubeconfig: ") {
		t.Errorf("got %q", got)
	}
	if got := pilotctl("install"); !strings.Contains(got, "no cluster is known: name a kubeconfig with --kubeconfig") {
		t.Errorf("got %q", got)
	}
	if got := pilotctl("problems", "--address", "127.0.0.1:1", "--context", "a"); !strings.Contains(got, "want one of them") {
		t.Errorf("got %q", got)
	}
}
