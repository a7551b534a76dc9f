package istioctl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"fairway"
	"fairway/internal/xdstype"
	"fairway/test/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mesh = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.12}]
`

// asking is a stream as istioctl opens it.
type asking struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	n int
}

func open(t *testing.T, conn *grpc.ClientConn) *asking {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(stop)
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &asking{s, 0}
}

// ask sends one question and waits for the answer.
func (a *asking) ask(typ string, names ...string) (*discoveryv3.DiscoveryResponse, error) {
	r := &discoveryv3.DiscoveryRequest{TypeUrl: typ, ResourceNames: names}
	if a.n++; a.n == 1 {
		r.Node = &corev3.Node{Id: "sidecar~0.0.0.0~debug~cluster.local"}
	}
	if err := a.Send(r); err != nil && !errors.Is(err, io.EOF) { // of a stream that has ended Recv has the status
		return nil, err
	}
	return a.Recv()
}

// once opens a stream for one question.
func once(t *testing.T, conn *grpc.ClientConn, typ string, names ...string) (*discoveryv3.DiscoveryResponse, error) {
	t.Helper()
	s := open(t, conn)
	defer func() { _ = s.CloseSend() }()
	return s.ask(typ, names...)
}

func plaintext(t *testing.T, p *plane.Plane) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// states returns the lines of proxy-status: the proxy, and the states of its types in both forms.
func states(t *testing.T, r *discoveryv3.DiscoveryResponse) (out []string) {
	t.Helper()
	for _, one := range r.GetResources() {
		var c statusv3.ClientConfig
		if err := one.UnmarshalTo(&c); err != nil {
			t.Fatal(err)
		}
		line := c.GetNode().GetId()
		for i, g := range c.GetGenericXdsConfigs() {
			kind := strings.TrimPrefix(g.GetTypeUrl(), "type.googleapis.com/envoy.config.")
			line += fmt.Sprintf(" %s=%s", kind[:strings.Index(kind, ".")], g.GetConfigStatus())
			if old := c.GetXdsConfig()[i]; old.GetStatus() != g.GetConfigStatus() || old.GetPerXdsConfig() == nil { //nolint:staticcheck
				t.Errorf("%s: the older form has %v", line, old)
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestIstioctl: proxy-status, and any debug page, as istioctl asks for them on the port of proxies.
func TestIstioctl(t *testing.T) {
	p := plane.Start(t, plane.Options())
	p.Apply(t, "mesh.yaml", mesh)
	p.Connect(t, plane.Proxy{Name: "web-1", Namespace: "shop", IP: "10.0.0.8"})
	p.Refuse(t, plane.Proxy{Name: "old-1", Namespace: "shop", IP: "10.0.0.9"}, xdstype.ClusterURL,
		"outbound|80||reviews.shop.svc.cluster.local", "no such thing")
	conn := plaintext(t, p)
	s := open(t, conn)
	r, err := s.ask("istio.io/debug/syncz")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"old-1.shop cluster=ERROR listener=NOT_SENT endpoint=NOT_SENT route=NOT_SENT",
		"web-1.shop cluster=SYNCED listener=SYNCED endpoint=SYNCED route=SYNCED",
	}
	if got := states(t, r); !slices.Equal(got, want) || r.GetTypeUrl() != "istio.io/debug/syncz" {
		t.Errorf("got %v of %s\nwant %v", got, r.GetTypeUrl(), want)
	}
	var plane struct {
		Component, ID string
		Info          struct {
			Version string `json:"version"`
		}
	}
	host, _ := os.Hostname()
	if err := json.Unmarshal([]byte(r.GetControlPlane().GetIdentifier()), &plane); err != nil ||
		plane.Component != "istiod" || plane.ID != host || plane.Info.Version != fairway.Version {
		t.Errorf("identifier %s: %v", r.GetControlPlane().GetIdentifier(), err)
	}
	// An acknowledgement is not a question; istioctl may send one.
	if err := s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}); err != nil {
		t.Fatal(err)
	}
	if r, err = s.ask("istio.io/debug/config_dump", "web-1.shop"); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, one := range r.GetResources() {
		parts = append(parts, strings.TrimPrefix(one.GetTypeUrl(), "type.googleapis.com/envoy.admin.v3."))
	}
	if !slices.Contains(parts, "ClustersConfigDump") || !slices.Contains(parts, "ListenersConfigDump") ||
		!slices.Contains(parts, "RoutesConfigDump") {
		t.Errorf("the parts of a dump are %v", parts)
	}
	for _, c := range []struct{ name, want string }{
		{"syncz", `"sidecar~10.0.0.8~web-1.shop~shop.svc.cluster.local"`},
		{"registryz?host=reviews.shop.svc.cluster.local", `"reviews.shop.svc.cluster.local"`},
		{"/debug/config_dump?proxyID=web-1.shop", `"configs"`},
		{"config_dump?proxyID=gone.shop", "Proxy not connected to this Pilot instance. It may be connected to another instance."},
		{"nothing", "there is no page /debug/nothing"},
		{"../metrics", "there is no page /debug/metrics"},
	} {
		r, err := s.ask("istio.io/debug", c.name)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(r.GetResources()) != 1 || r.GetResources()[0].GetTypeUrl() != "istio.io/debug" ||
			!strings.Contains(string(r.GetResources()[0].GetValue()), c.want) {
			t.Errorf("%s: got %.300s, want it to contain %s", c.name, r.GetResources(), c.want)
		}
	}
	if r, err := s.ask("istio.io/debug/config_dump", "gone.shop"); err != nil || len(r.GetResources()) != 0 {
		t.Errorf("the dump of no proxy: %v, %v", r, err)
	}
}

// TestWrongQuestions: each ends its stream with a status that says what would be right.
func TestWrongQuestions(t *testing.T) {
	p := plane.Start(t, plane.Options())
	conn := plaintext(t, p)
	for _, c := range []struct {
		typ   string
		names []string
		code  codes.Code
		want  string
	}{
		{"istio.io/debug", nil, codes.InvalidArgument, "want one resource name"},
		{"istio.io/debug", []string{"syncz", "registryz"}, codes.InvalidArgument, "want one resource name"},
		{"istio.io/debug", []string{"https://elsewhere/syncz"}, codes.InvalidArgument, "is not a page"},
		{"istio.io/debug", []string{"pprof/heap"}, codes.InvalidArgument, "over HTTP alone"},
		{"istio.io/debug", []string{"x/../pprof/heap"}, codes.InvalidArgument, "over HTTP alone"},
		{"istio.io/debug/config_dump", nil, codes.InvalidArgument, "want one resource name"},
		{"istio.io/debug/config_dump", []string{"a", "b"}, codes.InvalidArgument, "want one resource name"},
		{"istio.io/debug", []string{"config_dump"}, codes.InvalidArgument, "proxyID"},
	} {
		_, err := once(t, conn, c.typ, c.names...)
		if status.Code(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s %v: %v, want %v and %q", c.typ, c.names, err, c.code, c.want)
		}
	}
	s := open(t, conn)
	if _, err := s.ask("istio.io/debug/syncz"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(xdstype.ClusterURL); status.Code(err) != codes.InvalidArgument {
		t.Errorf("clusters on a stream of questions: %v", err)
	}
}

// TestRightsOfQuestions: a caller sees over xDS what it sees over HTTP: all as one of the system namespace, else its own namespace.
func TestRightsOfQuestions(t *testing.T) {
	opts := plane.SecureOptions(t)
	p := plane.Start(t, opts)
	p.Apply(t, "mesh.yaml", mesh)
	p.Connect(t, plane.Proxy{Name: "web-1", Namespace: "shop", IP: "10.0.0.8"})
	p.Connect(t, plane.Proxy{Name: "till-1", Namespace: "bank", IP: "10.0.0.9"})
	system, shop := p.JoinAs(t, opts.Namespace, "default"), p.JoinAs(t, "shop", "default")
	names := func(r *discoveryv3.DiscoveryResponse) (out []string) {
		for _, s := range states(t, r) {
			name, _, _ := strings.Cut(s, " ")
			out = append(out, name)
		}
		return out
	}
	all, own := p.Dial(t, system), p.Dial(t, shop)
	if r, err := once(t, all, "istio.io/debug/syncz"); err != nil || !slices.Equal(names(r), []string{"till-1.bank", "web-1.shop"}) {
		t.Errorf("the system namespace sees %v, %v", names(r), err)
	}
	if r, err := once(t, own, "istio.io/debug/syncz"); err != nil || !slices.Equal(names(r), []string{"web-1.shop"}) {
		t.Errorf("namespace shop sees %v, %v", names(r), err)
	}
	if r, err := once(t, own, "istio.io/debug/config_dump", "web-1.shop"); err != nil || len(r.GetResources()) == 0 {
		t.Errorf("its own proxy: %d parts, %v", len(r.GetResources()), err)
	}
	if r, err := once(t, own, "istio.io/debug/config_dump", "till-1.bank"); err != nil || len(r.GetResources()) != 0 {
		t.Errorf("another's proxy: %d parts, %v", len(r.GetResources()), err)
	}
	if _, err := once(t, all, "istio.io/debug", "tablez"); err != nil {
		t.Errorf("tables for the system namespace: %v", err)
	}
	if _, err := once(t, own, "istio.io/debug", "tablez"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("tables for another: %v", err)
	}
	if _, err := once(t, p.Dial(t, nil), "istio.io/debug/syncz"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without credentials: %v", err)
	}
}
