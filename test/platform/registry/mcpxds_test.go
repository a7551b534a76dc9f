package registry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/config"
	"fairway/internal/identity"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// mcpRules are rules of the first of two control planes.
const mcpRules = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  http: [{timeout: 3s, route: [{destination: {host: reviews.shop.svc.cluster.local}}]}]
`

// mcpCart is a service that the first one's platform knows, served at some addresses.
func mcpCart(addresses ...string) source.Update {
	key := mesh.ServiceKey{Host: "cart.shop.svc.cluster.local", Namespace: "shop", Registry: "memory"}
	slice := &mesh.Slice{Key: mesh.SliceKey{Service: key, Name: "all"}}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, mesh.SliceEndpoint{ID: a, Endpoint: mesh.Endpoint{
			Address: a, Ports: mesh.MakeLabels(map[string]string{"grpc": "9090"}),
			Labels:   mesh.MakeLabels(map[string]string{"version": "v1"}),
			Locality: mesh.Locality{Region: "r1", Zone: "z1"},
		}})
	}
	return source.Update{Shards: []source.Shard{{Rows: source.Rows{
		Services: []*mesh.Service{{
			Key: key, Resolution: mesh.ClientSide, ExportTo: []string{"*"}, Addresses: []string{"10.96.0.9"},
			Ports: []mesh.Port{{Name: "grpc", Number: 90, Target: 9090, Protocol: mesh.GRPC}},
		}},
		Slices: []*mesh.Slice{slice},
	}}}}
}

// mcpMesh writes a mesh configuration that names a config source.
func mcpMesh(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	mcpReviews = "outbound|80||reviews.shop.svc.cluster.local"
	mcpCarts   = "outbound|90||cart.shop.svc.cluster.local"
)

// mcpServed says why a proxy does not have the endpoints of a cluster.
func mcpServed(c *plane.Client, cluster string, want ...string) error {
	have, err := c.Endpoints(cluster)
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("%s is at %v, want %v", cluster, have, want)
	}
	return nil
}

// TestMCPChain: a control plane reads another one over xDS and serves its rules. One change there is one resource here, within
// milliseconds. While the other one is away, all stays; once it is back with the same rules, nothing is sent.
func TestMCPChain(t *testing.T) {
	opts := plane.Options()
	a := plane.Start(t, opts)
	a.Apply(t, "rules.yaml", mcpRules)
	a.Source.Apply(mcpCart("10.0.1.1", "10.0.1.2"))
	a.Settle(t)
	below := plane.Options()
	below.MeshConfig = mcpMesh(t, "configSources: [{address: 'xds://"+a.Address()+"'}]")
	b := plane.Start(t, below)
	client := b.Connect(t, plane.Proxy{Name: "web-1", Secrets: true})
	for cluster, want := range map[string][]string{mcpReviews: {"10.0.0.1:80"}, mcpCarts: {"10.0.1.1:9090", "10.0.1.2:9090"}} {
		if err := mcpServed(client, cluster, want...); err != nil {
			t.Error(err)
		}
	}
	if !slices.ContainsFunc(client.Names(ads.VirtualHostType), func(n string) bool { return strings.Contains(n, "reviews.shop") }) {
		t.Errorf("the rule is not among %v", client.Names(ads.VirtualHostType))
	}

	var took []time.Duration
	for i := range 20 {
		client.TakeTotals()
		want := []string{fmt.Sprintf("10.0.2.%d:9090", i)}
		began := time.Now()
		a.Source.Apply(mcpCart(fmt.Sprintf("10.0.2.%d", i)))
		rig.Eventually(t, func() error { return mcpServed(client, mcpCarts, want...) })
		took = append(took, time.Since(began))
		b.Settle(t)
		if got := client.TakeTotals(); got.Resources != 1 || got.Removed != 0 {
			t.Errorf("a changed endpoint is %+v on the wire, want one resource", got)
		}
	}
	slices.Sort(took)
	t.Logf("from the other control plane's source to the wire of a proxy: median %s, longest %s", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second {
		t.Errorf("that takes too long: %v", took)
	}

	address := a.Address()
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, func() error {
		if len(b.Discovery.Behind()) == 0 {
			return errors.New("nobody says that the other one is away")
		}
		return nil
	})
	b.Settle(t)
	if err := mcpServed(client, mcpCarts, "10.0.2.19:9090"); err != nil {
		t.Errorf("while the other one is away: %v", err)
	}
	opts.GRPCAddr = address
	again := plane.Holding(t, "again", mcpRules)
	plane.Run(t, opts, again, held{mcpCart("10.0.2.19")})
	rig.Eventually(t, func() error {
		if behind := b.Discovery.Behind(); len(behind) > 0 {
			return fmt.Errorf("%v", behind)
		}
		return nil
	})
	b.Settle(t)
	if got := client.TakeTotals(); got.Resources+got.Removed != 0 {
		t.Errorf("once the other one is back with the same, %+v is sent", got)
	}
}

// held is a source of what an update says.
type held struct{ said source.Update }

func (held) Name() string { return "held" }

func (h held) Run(ctx context.Context, sink source.Sink) error {
	h.said.Synced = true
	sink.Apply(h.said)
	<-ctx.Done()
	return nil
}

// mcpReader is a client that reads the configuration, written from the protocol's definition.
type mcpReader struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	node   *corev3.Node
}

func mcpDial(t *testing.T, address string, shown credentials.TransportCredentials, namespace string) *mcpReader {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(shown))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	t.Cleanup(cancel)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &mcpReader{stream, &corev3.Node{
		Id:       "sidecar~127.0.0.1~reader." + namespace + "~" + namespace + ".svc.cluster.local",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"GENERATOR": structpb.NewStringValue("api")}},
	}}
}

func (r *mcpReader) ask(t *testing.T, q *discoveryv3.DiscoveryRequest) {
	t.Helper()
	q.Node = r.node
	if err := r.stream.Send(q); err != nil {
		t.Fatal(err)
	}
}

func (r *mcpReader) next(t *testing.T) (*discoveryv3.DiscoveryResponse, map[string]*mcp.Resource) {
	t.Helper()
	m, err := r.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*mcp.Resource{}
	for _, packed := range m.Resources {
		one := &mcp.Resource{}
		if err := packed.UnmarshalTo(one); err != nil {
			t.Fatal(err)
		}
		out[one.Metadata.Name] = one
	}
	return m, out
}

// TestMCPWholeStates: a reader of the protocol of whole states gets everything with each answer, under any version of the API.
func TestMCPWholeStates(t *testing.T) {
	opts := plane.Options()
	opts.Grace = time.Millisecond // nothing waits for what refers to it
	p := plane.Start(t, opts)
	p.Apply(t, "rules.yaml", mcpRules)
	p.Source.Apply(mcpCart("10.0.1.1"))
	p.Settle(t)
	r := mcpDial(t, p.Address(), insecure.NewCredentials(), "istio-system")
	const typ = "networking.istio.io/v1beta1/ServiceEntry"
	r.ask(t, &discoveryv3.DiscoveryRequest{TypeUrl: typ})
	m, have := r.next(t)
	const made = "shop/synthetic-cart.shop.svc.cluster.local"
	if names := slices.Sorted(maps.Keys(have)); !slices.Equal(names, []string{"shop/reviews", made}) {
		t.Fatalf("%s: %v", typ, names)
	}
	entry := &networking.ServiceEntry{}
	if err := have[made].Body.UnmarshalTo(entry); err != nil {
		t.Fatal(err)
	}
	if e := entry.Endpoints; len(e) != 1 || e[0].Address != "10.0.1.1" || e[0].Ports["grpc"] != 9090 || e[0].Locality != "r1/z1" ||
		e[0].Labels["version"] != "v1" || entry.Addresses[0] != "10.96.0.9" || entry.Ports[0].TargetPort != 9090 {
		t.Errorf("what the platform knows is told as %v", entry)
	}
	r.ask(t, &discoveryv3.DiscoveryRequest{TypeUrl: typ, ResponseNonce: m.Nonce, VersionInfo: m.VersionInfo})
	p.Delete(t, config.ServiceEntry, "shop", "reviews")
	if _, have = r.next(t); len(have) != 1 || have["shop/reviews"] != nil {
		t.Errorf("once one is gone: %v", slices.Sorted(maps.Keys(have)))
	}
	for _, none := range []string{"gateway.networking.k8s.io/v1/HTTPRoute", "istio.io/v1alpha1/MeshConfig"} {
		r.ask(t, &discoveryv3.DiscoveryRequest{TypeUrl: none})
		if m, have := r.next(t); m.TypeUrl != none || len(have) != 0 {
			t.Errorf("%s is answered by %v of %s", none, have, m.TypeUrl)
		}
	}
}

// TestMCPWhoMayRead: only identities of the system namespace may read the configuration, and this machine in plaintext.
func TestMCPWhoMayRead(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	p.Apply(t, "rules.yaml", mcpRules)
	for _, c := range []struct {
		namespace, account string
		want               codes.Code
	}{{"istio-system", "istiod", codes.OK}, {"shop", "web", codes.PermissionDenied}} {
		id, err := identity.New("cluster.local", c.namespace, c.account)
		if err != nil {
			t.Fatal(err)
		}
		r := mcpDial(t, p.Discovery.SecureAddr(), p.Credentials(p.Join(t, id)), c.namespace)
		r.ask(t, &discoveryv3.DiscoveryRequest{TypeUrl: "networking.istio.io/v1/VirtualService"})
		m, err := r.stream.Recv()
		if status.Code(err) != c.want || err == nil && len(m.Resources) != 1 {
			t.Errorf("%s of %s gets %v, %v; want %v", c.account, c.namespace, m, err, c.want)
		}
	}
}

// TestMCPMutual: two control planes with one root know each other by ISTIO_MUTUAL.
func TestMCPMutual(t *testing.T) {
	opts := plane.SecureOptions(t)
	a := plane.Start(t, opts)
	a.Apply(t, "rules.yaml", mcpRules)
	below := plane.SecureOptions(t)
	below.Identity.CA.State = opts.Identity.CA.State
	below.MeshConfig = mcpMesh(t, "configSources: [{address: 'xds://"+a.Discovery.SecureAddr()+"', tlsSettings: {mode: ISTIO_MUTUAL}}]")
	b := plane.Start(t, below)
	if err := mcpServed(b.Connect(t, plane.Proxy{Name: "web-1", Secrets: true}), mcpReviews, "10.0.0.1:80"); err != nil {
		t.Error(err)
	}
}

// TestMCPConfigSourcesLive: config sources come and go with the mesh configuration, folders too; a source's objects go with it.
func TestMCPConfigSourcesLive(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(mcpRules), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := plane.Options()
	opts.MeshConfig = mcpMesh(t, "configSources: [{address: 'fs://"+folder+"'}, {address: 'gopher://x'}]")
	p := plane.Start(t, opts)
	client := p.Connect(t, plane.Proxy{Name: "web-1", Secrets: true})
	if err := mcpServed(client, mcpReviews, "10.0.0.1:80"); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(p.Discovery.Problems(), func(q mesh.Problem) bool { return q.Field == "configSources[1].address" }) {
		t.Errorf("nobody says what is wrong: %v", p.Discovery.Problems())
	}
	write := func(text string) {
		next := opts.MeshConfig + ".next"
		if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, opts.MeshConfig)); err != nil {
			t.Fatal(err)
		}
	}
	write("configSources: []")
	rig.Eventually(t, func() error {
		if slices.Contains(client.Names(ads.ClusterType), mcpReviews) {
			return errors.New("what the folder said is still there")
		}
		return nil
	})
	write("configSources: [{address: 'fs://" + folder + "'}]")
	rig.Eventually(t, func() error { return mcpServed(client, mcpReviews, "10.0.0.1:80") })
}
