package envoy

import (
	"fmt"
	"testing"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestUnderLoad changes the mesh in every way that users do while clients of every kind ask without pause: no request may fail.
func TestUnderLoad(t *testing.T) {
	bothProtocols(t, func(t *testing.T, sotw bool) {
		m := live.Start(t, live.Options{})
		m.ClientNode(t, live.Node{Name: client, Sotw: sotw})
		m.Proxy(t, live.Node{Name: gateway, Router: true, Labels: map[string]string{"istio": "gateway"}, Sotw: sotw})
		for _, c := range []feature{
			{"rules applied and deleted in either order", rulesInAnyOrder},
			{"DestinationRule changed", ruleChanged},
			{"endpoints replaced", endpointsReplaced},
			{"service added and removed", serviceComesAndGoes},
			{"flips of a route", flips},
			{"flips on a gateway", gatewayFlips},
			{"rules of a gateway in either order", gatewayOrder},
			{"a service goes before the route to it", destinationGoes},
			{"inbound listener changed", inboundChanged},
			{"control plane restarted", restarted},
		} {
			t.Run(c.name, func(t *testing.T) { c.show(t, m) })
		}
	})
}

// The kinds of clients in a load.
const (
	http1   = "HTTP/1.1"
	http2   = "HTTP/2"
	tcp     = "TCP"         // a connection for each exchange
	longTCP = "lasting TCP" // one connection for all of them
)

// clientsOf is a load of every kind of client on a service that serving made.
func clientsOf(t *testing.T, m *live.Mesh, name string) *live.Load {
	t.Helper()
	address := m.Addr(name+"-vip", 9000)
	live.AwaitTCP(t, address)
	return live.StartLoad(
		t,
		append(httpCrowd(from(m, name+".test")), live.TCPClients(tcp, 1, address), live.LongTCPClients(longTCP, 1, address))...)
}

func httpCrowd(r live.Request) []live.Clients {
	two := r
	two.HTTP2 = true
	return []live.Clients{live.HTTPClients(http1, 2, r), live.HTTPClients(http2, 2, two)}
}

// serving is a service of two versions, <name>-v1 and <name>-v2, that speaks HTTP at port 8000 and just TCP at port
// 9000 of the address <name>-vip.
func serving(t *testing.T, m *live.Mesh, name string) string {
	t.Helper()
	for _, b := range []string{name + "-v1", name + "-v2"} {
		m.Backend(t, b)
		m.TCPBackend(t, b, 9000)
	}
	return m.Rules(t, "load.txtar:service", "name", name)
}

// subsets are v1 and v2 of a service that serving made.
func subsets(t *testing.T, m *live.Mesh, name string) string {
	t.Helper()
	return m.Rules(t, "load.txtar:subsets", "name", name)
}

// allTo routes its requests and connections to a subset.
func allTo(t *testing.T, m *live.Mesh, name, subset string) string {
	t.Helper()
	return m.Rules(t, "load.txtar:all-to", "name", name, "subset", subset)
}

// dial counts the answers of each backend in n connections.
func dial(t *testing.T, n int, address string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		got[live.DialTCP(t, address)]++
	}
	return got
}

// wantAll sends new requests and opens new connections: one version alone must answer.
func wantAll(t *testing.T, m *live.Mesh, name, version string) {
	t.Helper()
	want := name + "-" + version
	if got := live.Tally(t, 10, from(m, name+".test")); got[want] != 10 {
		t.Errorf("requests are answered by %v, want %s", got, want)
	}
	address := m.Addr(name+"-vip", 9000)
	rig.Eventually(t, func() error { // Envoy acknowledges a listener some milliseconds before connections are taken by it
		if got := dial(t, 1, address); got[want] != 1 {
			return fmt.Errorf("a connection is taken by %v, want %s", got, want)
		}
		return nil
	})
	if got := dial(t, 5, address); got[want] != 5 {
		t.Errorf("connections are taken by %v, want %s", got, want)
	}
}

// rulesInAnyOrder: a route to subsets and the rule that defines them, each one applied first, each one deleted first.
func rulesInAnyOrder(t *testing.T, m *live.Mesh) {
	const name, ruleName, routeName = "order", "DestinationRule order-test", "VirtualService order-test"
	m.Apply(t, serving(t, m, name))
	rule, route := subsets(t, m, name), allTo(t, m, name, "v2")
	load := clientsOf(t, m, name)
	for _, s := range []struct {
		apply, remove [2]string
	}{
		{[2]string{rule, route}, [2]string{routeName, ruleName}},
		{[2]string{route, rule}, [2]string{ruleName, routeName}},
		{[2]string{route, rule}, [2]string{routeName, ruleName}},
		{[2]string{rule, route}, [2]string{ruleName, routeName}},
	} {
		m.Set(t, s.apply[0])
		load.Await(t, 20)
		m.Apply(t, s.apply[1])
		wantAll(t, m, name, "v2")
		load.Await(t, 20)
		m.Drop(s.remove[0])
		load.Await(t, 20)
		m.Delete(t, s.remove[1])
		load.AwaitFrom(t, http1, "order-v1")
		load.AwaitFrom(t, tcp, "order-v1")
		load.Await(t, 20)
	}
	// The subset that the route uses is renamed, first in the rule, then in the route.
	m.Apply(t, rule, route)
	m.Set(t, m.Rules(t, "load.txtar:renamed"))
	load.Await(t, 20)
	m.Apply(t, allTo(t, m, name, "other"))
	wantAll(t, m, name, "v1")
	m.Delete(t, routeName, ruleName)
	load.Await(t, 20)
	load.Stop(t)
}

// ruleChanged: each change makes a new cluster in the proxy, which needs its endpoints again.
func ruleChanged(t *testing.T, m *live.Mesh) {
	m.Apply(t, serving(t, m, "rulechg"), allTo(t, m, "rulechg", "v2"), subsets(t, m, "rulechg"))
	load := clientsOf(t, m, "rulechg")
	for i := range 25 {
		m.Apply(t, m.Rules(t, "load.txtar:changed", "requests", 1000+i, "connections", 2000+i))
		load.Await(t, 10)
	}
	m.Delete(t, "VirtualService rulechg-test", "DestinationRule rulechg-test")
	load.Await(t, 20)
	load.Stop(t)
}

// endpointsReplaced: all endpoints go and others come, in one batch.
func endpointsReplaced(t *testing.T, m *live.Mesh) {
	serving(t, m, "replace") // its backends alone
	s, endpoint := registered(m, "replace.test")
	s.Ports = append(s.Ports, mesh.Port{Name: "tcp", Number: 9000, Target: 9000, Protocol: mesh.TCP})
	s.Addresses = []string{m.IP("replace-vip")}
	m.Plane.Rules.Add(source.Rows{Services: []*mesh.Service{s}})
	set(t, m, endpoint, map[string]mesh.Endpoint{"replace-v1": {}})
	load := clientsOf(t, m, "replace")
	for i := range 20 {
		here, there := fmt.Sprintf("v%d", 1+i%2), fmt.Sprintf("v%d", 1+(i+1)%2)
		set(t, m, endpoint, map[string]mesh.Endpoint{"replace-" + there: {}})
		m.Plane.Rules.Remove(source.Keys{Slices: []mesh.SliceKey{endpoint("replace-"+here, mesh.Endpoint{}).Key}})
		m.Settle(t)
		wantAll(t, m, "replace", there)
		load.Await(t, 10)
	}
	load.Stop(t)
}

// serviceComesAndGoes: other services' coming and going does not touch one that stays.
func serviceComesAndGoes(t *testing.T, m *live.Mesh) {
	m.Apply(t, serving(t, m, "stays"))
	comes := serving(t, m, "comes")
	load := clientsOf(t, m, "stays")
	for range 10 {
		m.Apply(t, comes)
		wantStatus(t, live.Send(t, from(m, "comes.test")), 200)
		live.AwaitTCP(t, m.Addr("comes-vip", 9000))
		m.Delete(t, "ServiceEntry comes-test")
		if r := live.Send(t, from(m, "comes.test")); r.Status == 200 {
			t.Errorf("a service that is gone answers")
		}
		load.Await(t, 20)
	}
	load.Stop(t)
}

// flips: a route goes back and forth, and each time is in force when the control plane says so.
func flips(t *testing.T, m *live.Mesh) {
	m.Apply(t, serving(t, m, "flip"), subsets(t, m, "flip"), allTo(t, m, "flip", "v1"))
	load := clientsOf(t, m, "flip")
	for i := range 100 {
		version := fmt.Sprintf("v%d", 1+(i+1)%2)
		m.Apply(t, allTo(t, m, "flip", version))
		if i%10 == 0 {
			wantAll(t, m, "flip", version)
		}
		load.Await(t, 3)
	}
	load.Stop(t)
}

// destinationGoes: one service's requests are routed to another, which is removed before the route is.
func destinationGoes(t *testing.T, m *live.Mesh) {
	m.Backends(t, "elsewhere")
	m.Apply(t, serving(t, m, "stay"))
	load := live.StartLoad(t, httpCrowd(from(m, "stay.test"))...)
	for range 5 {
		m.Set(t, m.Rules(t, "load.txtar:to-elsewhere"))
		load.Await(t, 20)
		m.Apply(t, m.Rules(t, "load.txtar:elsewhere"))
		if got := live.Tally(t, 10, from(m, "stay.test")); got["elsewhere"] != 10 {
			t.Errorf("with the other service there: %v", got)
		}
		m.Drop("ServiceEntry elsewhere-test")
		load.Await(t, 20)
		m.Delete(t, "VirtualService stay-test")
		load.AwaitFrom(t, http1, "stay-v1")
	}
	load.Stop(t)
}
