package envoy

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/test/envoy/live"
)

// TestNetworks: two networks with an east-west gateway into each. Clients reach near endpoints directly and far ones through their gateway,
// which cannot read the traffic.
func TestNetworks(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		w := newNetworks(t, sotw)
		t.Run("shares", w.shares)
		t.Run("failover", w.failover)
		t.Run("strangers", w.strangers)
	})
}

type networks struct {
	m     *live.Mesh
	trust *live.Trust
}

// newNetworks starts a client and a workload "near" in network here, workloads "far" and "farther" in network there, and
// the gateway that there is entered by.
func newNetworks(t *testing.T, sotw bool) *networks {
	w := &networks{trust: live.NewTrust(t), m: live.Start(t, live.Options{Networks: `networks:
  here: {gateways: [{address: 192.0.2.1, port: 15443}]}
  there: {gateways: [{address: "${ip:entrance}", port: 15443}]}
`})}
	node := func(name, network string) live.Node {
		return live.Node{Name: name, Sotw: sotw, Network: network, Identity: w.trust.Issue(t, name).Files}
	}
	names := []string{"near", "far", "farther"}
	values := []any{}
	for _, name := range names {
		values = append(values, name, w.m.BackendOnLocalhost(t, "net-"+name))
	}
	w.m.Set(t, w.m.Rules(t, "networks.txtar:mesh", values...), w.service(t, "both"))
	for _, name := range names {
		network := "there"
		if name == "near" {
			network = "here"
		}
		w.m.Proxy(t, node(name, network))
	}
	edge := node("entrance", "there")
	edge.Router, edge.Labels = true, map[string]string{"istio": "eastwest"}
	w.m.Proxy(t, edge)
	caller := node(client, "here")
	caller.Locality = mesh.Locality{Region: "here", Zone: "a"}
	w.m.ClientNode(t, caller)
	return w
}

// service is the services' endpoints as one of the files has them.
func (w *networks) service(t *testing.T, file string) string {
	t.Helper()
	return w.m.Rules(t, "networks.txtar:"+file)
}

// shares: of three endpoints of equal weight two are far, behind one gateway.
func (w *networks) shares(t *testing.T) {
	got := live.Tally(t, 300, from(w.m, "net.test"))
	if far := got["net-far"] + got["net-farther"]; far < 160 || far > 240 || got["net-near"] != 300-far {
		t.Errorf("of 300 requests, two thirds for two far ones: %v", got)
	}
	reply := live.Send(t, from(w.m, "only-far.test"))
	wantServer(t, reply, "net-far")
	if got := fmt.Sprint(reply.Echo.Header[xfcc]); !strings.Contains(got, "URI=spiffe://cluster.local/ns/default/sa/"+client) {
		t.Errorf("the far workload is told of its caller %q", got)
	}
	w.m.Envoy("entrance").AwaitStat(t, `^cluster\.outbound_\.8000_\._\.net\.test.*upstream_cx_total$`, 1)
}

// failover: with locality, the far ones are used once the near one is gone, and no sooner.
func (w *networks) failover(t *testing.T) {
	w.m.Apply(t, w.service(t, "placed"))
	if got := live.Tally(t, 60, from(w.m, "net.test")); got["net-near"] != 60 {
		t.Errorf("while there is a near one: %v", got)
	}
	w.m.Apply(t, w.service(t, "gone"))
	got := live.Tally(t, 60, from(w.m, "net.test"))
	if got["net-far"]+got["net-farther"] != 60 {
		t.Errorf("once it is gone: %v", got)
	}
}

// strangers: a client that names a cluster reaches each of its endpoints in the gateway's network. The gateway has
// other clusters, and forwards no client to them.
func (w *networks) strangers(t *testing.T) {
	config := w.trust.Issue(t, "web").TLS
	config.NextProtos = []string{"istio"}
	ask := live.Request{To: w.m.Addr("entrance", 15443), Host: "net.test", TLS: config}
	config.ServerName = "outbound_.8000_._.net.test"
	answered := map[string]bool{}
	for range 20 {
		reply, err := live.Try(ask)
		if err != nil || reply.Status != 200 {
			t.Fatalf("by the name %s: %d, %v", config.ServerName, reply.Status, err)
		}
		answered[reply.Echo.Server] = true
	}
	if !answered["net-far"] || !answered["net-farther"] || len(answered) != 2 {
		t.Errorf("of the gateway's network two should have answered, and nobody else: %v", answered)
	}
	for _, name := range []string{"net.test", "a.net.test", "outbound|8000||net.test", "outbound_.8000_._.nobody.test", ""} {
		config.ServerName = name
		if reply, err := live.Try(ask); err == nil {
			t.Errorf("by the name %q a stranger is answered %d", name, reply.Status)
		}
	}
}
