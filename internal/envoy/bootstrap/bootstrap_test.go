package bootstrap

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"fairway/internal/golden"
	"fairway/internal/mesh"
)

func sidecar() Params {
	return Params{
		Node: Node{
			Type: mesh.Sidecar, IP: "10.0.0.7", Name: "reviews-v1-abc", Namespace: "default", Domain: "default.svc.cluster.local",
			Cluster:  "reviews.default",
			Metadata: map[string]any{"NAME": "reviews-v1-abc", "LABELS": map[string]any{"app": "reviews"}},
			Locality: mesh.Locality{Region: "eu", Zone: "eu-1"},
		},
		Discovery: HostPort{"pilot.mesh.svc", 15010},
		Admin:     HostPort{"127.0.0.1", 15000},
	}
}

func router() Params {
	p := sidecar()
	p.Node.Type = mesh.Router
	p.Node.Locality = mesh.Locality{}
	p.Discovery = HostPort{"127.0.0.1", 15010}
	p.Prometheus = HostPort{"0.0.0.0", 15090}
	p.Stats = StatsMatcher{Prefixes: []string{"cluster.outbound"}, Regexps: []string{`http\..*\.rq_total`}}
	p.Runtime = map[string]string{"overload.x": "3"}
	return p
}

// relayed returns the parameters of a proxy that reaches the control plane through its agent.
func relayed() Params {
	p := sidecar()
	p.Stats = StatsMatcher{Regexps: []string{Everything}}
	p.DiscoverySocket, p.SecretsSocket = "/var/run/fairway/xds.sock", "/var/run/fairway/sds.sock"
	p.Token, p.AdminSocket, p.AdminMoved, p.Prometheus = "secret", "/var/run/fairway/a", "/var/run/fairway/b", HostPort{"0.0.0.0", 15090}
	p.Ready, p.Status = HostPort{"0.0.0.0", 15021}, HostPort{"127.0.0.1", 15020}
	p.DrainFile = "/var/run/fairway/drain"
	p.Node.Metadata[mesh.SelfDiscovery] = "true"
	return p
}

// several returns the parameters of a proxy that connects to one of three control planes itself.
func several() Params {
	p := sidecar()
	p.Discovery = HostPort{"10.0.0.1", 15010}
	p.Others = []HostPort{{"10.0.0.2", 15010}, {"pilot-c.example", 15010}}
	return p
}

func TestGolden(t *testing.T) {
	for name, p := range map[string]Params{"sidecar": sidecar(), "router": router(), "relayed": relayed(), "several": several()} {
		t.Run(name, func(t *testing.T) {
			golden.File(t, filepath.Join("testdata", name+".json"), string(render(t, p)))
		})
	}
}

// render returns the bootstrap as JSON with fixed white space, which protojson varies on purpose.
func render(t *testing.T, p Params) []byte {
	t.Helper()
	b, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(p)
	if err != nil || !proto.Equal(b, again) {
		t.Fatalf("two builds of the same differ (%v)", err)
	}
	raw, err := JSON(b)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", " "); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*Params){
		"node metadata":  func(p *Params) { p.Node.Metadata = map[string]any{"X": struct{}{}} },
		"Address":        func(p *Params) { p.Admin.Host = "" },
		"longer than":    func(p *Params) { p.SecretsSocket = "/" + strings.Repeat("x", 107) },
		"runtime values": func(p *Params) { p.Runtime = map[string]string{"a": "\xff"} },
	} {
		p := sidecar()
		change(&p)
		if _, err := Build(p); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one that says %q", err, name)
		}
	}
}

func TestNodeID(t *testing.T) {
	if got, want := router().Node.ID(), "router~10.0.0.7~reviews-v1-abc.default~default.svc.cluster.local"; got != want {
		t.Errorf("ID() = %q, want %q", got, want)
	}
}

func TestStatsTags(t *testing.T) {
	for stat, want := range map[string][2]string{
		"cluster.outbound|80||reviews.default.svc.cluster.local.upstream_cx_total": {
			"cluster_name", "outbound|80||reviews.default.svc.cluster.local",
		},
		"cluster.outbound|80|v1|a.b;.http2.rx_reset":    {"cluster_name", "outbound|80|v1|a.b"},
		"cluster.xds-grpc.upstream_rq_total":            {"cluster_name", "xds-grpc"},
		"http.outbound_0.0.0.0_80;.downstream_rq_total": {"http_conn_manager_prefix", "outbound_0.0.0.0_80;"},
		"listener.127.0.0.1_9080.downstream_cx_total":   {"listener_address", "127.0.0.1_9080"},
		"listener.[__1]_80.downstream_cx_total":         {"listener_address", "[__1]_80"},
		"cluster.x.upstream_rq_503":                     {"response_code", "503"},
		"cluster.x.upstream_rq_5xx":                     {"response_code_class", "5xx"},
		"tcp.outbound|3306||db.downstream_cx_total":     {"tcp_prefix", "outbound|3306||db"},
	} {
		if got := tagOf(stat, want[0]); got != want[1] {
			t.Errorf("%s: %s = %q, want %q", stat, want[0], got, want[1])
		}
	}
}

func tagOf(stat, tag string) string {
	for _, t := range statsTags {
		if t[0] != tag {
			continue
		}
		if m := regexp.MustCompile(t[1]).FindStringSubmatch(stat); m != nil {
			return m[2]
		}
	}
	return ""
}

func TestHostPort(t *testing.T) {
	for want, a := range map[string]HostPort{"[::1]:80": {"::1", 80}, "pilot:15010": {"pilot", 15010}, "10.0.0.1:1": {"10.0.0.1", 1}} {
		if a.String() != want {
			t.Errorf("%#v = %q, want %q", a, a.String(), want)
		}
	}
}

// TestIdentified: the metadata says whether the proxy has an identity, and whether its agent fetches modules. The node cannot override it.
func TestIdentified(t *testing.T) {
	for _, c := range []struct {
		p    Params
		want map[string]any
	}{
		{Params{}, map[string]any{"FAIRWAY_IDENTITY": "none"}},
		{Params{SecretsSocket: "/s"}, map[string]any{}},
		{Params{SecretsSocket: "/s", ExtensionsSocket: "/e"}, map[string]any{"FAIRWAY_EXTENSIONS": "agent"}},
		{Params{SecretsSocket: "/s", Node: Node{Metadata: map[string]any{"FAIRWAY_EXTENSIONS": "agent", "a": "b"}}},
			map[string]any{"a": "b"}},
	} {
		if got := c.p.identified().Metadata; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
}
