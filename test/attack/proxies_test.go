package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// edgeRules are the rules of a gateway with a new key, which is returned as PEM.
func edgeRules(t *testing.T, holders string) (rules string, key []byte) {
	t.Helper()
	chain, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	indent := func(text []byte) string { return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") }
	return rig.Text(t, "edge.yaml", rig.Pairs("holders", holders, "certificate", indent(chain), "key", indent(key))), key
}

func gatewayNode(namespace, name string, pair *tls.Certificate) plane.Proxy {
	return plane.Proxy{
		Type:      "router",
		Name:      name,
		Namespace: namespace,
		IP:        "10.0.0.5",
		Labels:    map[string]string{"istio": "ingress"},
		Secrets:   true,
		Identity:  pair,
	}
}

// holdsKey reports whether a client was sent the key.
func holdsKey(c *plane.Client, key []byte) bool {
	body, ok := c.Body(ads.SecretType, "kubernetes://web")
	return ok && bytes.Contains(body, bytes.TrimSpace(key))
}

// isSentKey asks for the Secret as a proxy of its own making, and says whether it is sent the key. The first answer
// decides: a name that a proxy may not see is reported as missing.
func isSentKey(t *testing.T, p *plane.Plane, x plane.Proxy, key []byte) bool {
	t.Helper()
	return slices.ContainsFunc(
		firstAnswer(t, p, x,
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ads.SecretType, ResourceNamesSubscribe: []string{"kubernetes://web"}}),
		func(r *discoveryv3.Resource) bool {
			return bytes.Contains(r.GetResource().GetValue(), bytes.TrimSpace(key))
		},
	)
}

// firstAnswer is what a proxy of its own making is sent first for a request.
func firstAnswer(t *testing.T, p *plane.Plane, x plane.Proxy, ask *discoveryv3.DeltaDiscoveryRequest) []*discoveryv3.Resource {
	t.Helper()
	conn := plaintext(t, p)
	if x.Identity != nil {
		conn = p.Dial(t, x.Identity)
	}
	ctx, leave := context.WithCancel(t.Context()) // it acknowledges nothing, so no test may wait for it
	defer leave()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask.Node = x.Node()
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetResources()
}

// plaintext connects to the plaintext address until the test ends.
func plaintext(t *testing.T, p *plane.Plane) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func text(s string) *structpb.Value { return structpb.NewStringValue(s) }

// TestKeysOfAGateway: its service account alone is sent them, by whatever name another calls itself: with the gateway's
// node id, its labels, its namespace; beside its stream and right after its end; over plaintext and with a certificate.
func TestKeysOfAGateway(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	rules, key := edgeRules(t, "edge")
	p.Apply(t, "rules.yaml", rules)
	gateway := p.Connect(t, gatewayNode("infra", "edge-1", p.JoinAs(t, "infra", "edge")))
	if !holdsKey(gateway, key) {
		t.Fatal("the gateway is not sent its key: nothing was looked at")
	}
	neighbour := p.JoinAs(t, "infra", "shop")
	thieves := map[string]plane.Proxy{
		"another account with the gateway's node id": gatewayNode("infra", "edge-1", neighbour),
		"another account with the gateway's labels":  gatewayNode("infra", "mine", neighbour),
		"plaintext with the gateway's node id":       gatewayNode("infra", "edge-1", nil),
		"an account of another namespace":            gatewayNode("bank", "edge-1", p.JoinAs(t, "bank", "edge")),
	}
	for name, x := range thieves {
		if isSentKey(t, p, x, key) {
			t.Errorf("%s, beside the gateway: is sent the key", name)
		}
	}
	gateway.Disconnect()
	for name, x := range thieves {
		if isSentKey(t, p, x, key) {
			t.Errorf("%s, right after the gateway's end: is sent the key", name)
		}
	}
	p.Settle(t)
	told := false
	for _, problem := range p.Discovery.Problems() {
		told = told ||
			problem.Code == "HolderNotNamed" && problem.Object.Name == "web" && strings.Contains(problem.Message, "service account shop")
	}
	if !told {
		t.Error("the Secret's author is not told that service account shop asks for it")
	}
}

// TestKeysOfAnyAccount: a Secret for all accounts is sent to each proxy of the namespace, a Secret for other accounts alone is not sent.
func TestKeysOfAnyAccount(t *testing.T) {
	for holders, want := range map[string]bool{"*": true, "other, edge": true, "other": false} {
		p := plane.Start(t, plane.SecureOptions(t))
		rules, key := edgeRules(t, holders)
		p.Apply(t, "rules.yaml", rules)
		if isSentKey(t, p, gatewayNode("infra", "edge-1", p.JoinAs(t, "infra", "edge")), key) != want {
			t.Errorf("%q: the gateway is sent the key: %t, want %t", holders, !want, want)
		}
	}
}

// TestLabelsOfAGateway: a proxy that claims the labels gets none of the gateway's configuration, unless its service
// account has been assigned the labels; the Gateway's author gets a problem.
func TestLabelsOfAGateway(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	rules, _ := edgeRules(t, "edge")
	p.Apply(t, "rules.yaml", rules)
	if gateway := p.Connect(t, gatewayNode("infra", "edge-1", p.JoinAs(t, "infra", "edge"))); len(gateway.Names(ads.ListenerType)) == 0 {
		t.Fatal("the gateway has no listener: nothing was looked at")
	}
	for _, x := range []struct{ namespace, account string }{{"infra", "batch"}, {"bank", "teller"}} {
		liar := gatewayNode(x.namespace, "edge-1", p.JoinAs(t, x.namespace, x.account))
		// A name that does not exist is answered, also if there is nothing else to send.
		for _, r := range firstAnswer(t, p, liar,
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ads.ListenerType, ResourceNamesSubscribe: []string{"*", "nobody's"}}) {
			if r.GetResource() != nil {
				t.Errorf("%s/%s is told of listener %s", x.namespace, x.account, r.GetName())
			}
		}
		told := false
		for _, problem := range p.Discovery.Problems() {
			told = told ||
				problem.Code == "LabelsNotVouched" && problem.Object.Name == "edge" &&
					strings.Contains(problem.Message, x.namespace+"/"+x.account)
		}
		if !told {
			t.Errorf("the Gateway's author is not told of %s/%s", x.namespace, x.account)
		}
	}
}

// TestVictimKeepsItsView: a plaintext stream with a victim's node id, namespace and other properties neither moves what
// the victim sees nor has it refused.
func TestVictimKeepsItsView(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	p.Apply(t, "rules.yaml", rig.Text(t, "service.yaml", rig.Pairs("name", "reviews", "namespace", "shop")))
	pair := p.JoinAs(t, "shop", "web")
	x := plane.Proxy{Name: "web-1", Namespace: "shop", Identity: pair}
	victim := p.Connect(t, x)
	victim.TakeTotals()
	before := victim.State()
	liar := x
	liar.Identity, liar.Labels = nil, map[string]string{"app": "else"}
	node := liar.Node()
	node.Metadata.Fields["FAIRWAY_IDENTITY"] = text("none")
	node.Metadata.Fields["INTERCEPTION_MODE"] = text("NONE")
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(plaintext(t, p)).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ads.ClusterType}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: ads.ClusterType, ResponseNonce: answer.GetNonce()}); err != nil {
		t.Fatal(err)
	}
	p.Settle(t)
	if victim.State() != before || victim.TakeTotals() != (ads.Totals{}) || victim.Err() != nil {
		t.Errorf("the victim's view moved: %s, was %s; %v", victim.State(), before, victim.Err())
	}
	if c := p.Connect(t, x); c.State() != before {
		t.Errorf("the victim comes back to %s, was %s", c.State(), before)
	}
}

// TestNodesThatDisagree: if the id, the metadata and the proved identity do not agree, the stream is refused.
func TestNodesThatDisagree(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	pair := p.JoinAs(t, "shop", "web")
	for _, c := range []struct{ name, id, namespace, account string }{
		{"the id has another namespace", "sidecar~10.0.0.9~web-1.bank~x", "shop", "web"},
		{"the metadata has another namespace", "sidecar~10.0.0.9~web-1.shop~x", "bank", "web"},
		{"both have another namespace", "sidecar~10.0.0.9~web-1.bank~x", "bank", "web"},
		{"another service account", "sidecar~10.0.0.9~web-1.shop~x", "shop", "edge"},
		{"a key in place of an id", "shop/edge|sidecar~10.0.0.9~web-1.shop~x", "shop", "web"},
		{"an escape sequence in the id", "sidecar~10.0.0.9~web\x1b[2J.shop~x", "shop", "web"},
	} {
		node := plane.Proxy{Name: "web-1"}.Node()
		node.Id = c.id
		node.Metadata.Fields["NAMESPACE"], node.Metadata.Fields["SERVICE_ACCOUNT"] = text(c.namespace), text(c.account)
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.Dial(t, pair)).DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ads.ClusterType})
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v, want it refused", c.name, err)
		}
	}
}

// TestLayersOfManyLabels: gateways with labels that no rule selects share one layer, however many different labels they claim.
func TestLayersOfManyLabels(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	rules, _ := edgeRules(t, "edge")
	p.Apply(t, "rules.yaml", rules)
	for n := range 20 {
		p.Connect(
			t,
			plane.Proxy{
				Type:      "router",
				Name:      fmt.Sprint("g-", n),
				Namespace: "infra",
				IP:        "10.0.0.5",
				Labels:    map[string]string{"istio": "ingress", "mine": fmt.Sprint(n)},
			},
		)
	}
	_, layers, err := rig.Call("GET", p.URL("/debug/tablez?table=layers&format=text"), nil)
	if err != nil || strings.Count(layers, "gateway/infra/") != 1 {
		t.Errorf("20 gateways with a label of their own each see other layers than one: %v\n%s", err, layers)
	}
}

// TestProxiesOfOneIdentityAreCounted: one service account cannot take the places of the others.
func TestProxiesOfOneIdentityAreCounted(t *testing.T) {
	opts := plane.SecureOptions(t)
	opts.ProxyShare = 3
	p := plane.Start(t, opts)
	pair := p.JoinAs(t, "shop", "web")
	for n := range 3 {
		p.Connect(t, plane.Proxy{Name: fmt.Sprint("web-", n), Identity: pair})
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.Dial(t, pair)).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: plane.Proxy{Name: "web-9"}.Node(), TypeUrl: ads.ClusterType})
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a fourth proxy of the account: %v, want ResourceExhausted", err)
	}
	p.Connect(t, plane.Proxy{Name: "web-1", Identity: pair})
	p.Connect(t, plane.Proxy{Name: "edge-1", Identity: p.JoinAs(t, "shop", "edge")})
}
