package scope

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/mesh"
)

func TestParseImport(t *testing.T) {
	for s, want := range map[string]importEntry{
		"./*":           {namespace: "shop", host: "*"},
		"*/*":           {namespace: "*", host: "*"},
		"bank/B.com":    {namespace: "bank", host: "b.com"},
		"~/*":           {exclude: true, namespace: "*", host: "*"},
		"~bank/*.b.com": {exclude: true, namespace: "bank", host: "*.b.com"},
		"~./a.com":      {exclude: true, namespace: "shop", host: "a.com"},
		"b.com":         {namespace: "*", host: "b.com"},
	} {
		if got := parseImport(s, "shop"); got != want {
			t.Errorf("%s: %+v, want %+v", s, got, want)
		}
	}
}

// A host is imported by the listeners of which an entry covers it and no exclusion does.
func TestListenersOfAHost(t *testing.T) {
	var i imports
	for listener, entries := range [][]string{{"*/*", "~bank/*"}, {"bank/*.b.com"}, {"*/*", "~/*"}, {"./a.com", "./a.com"}} {
		for _, e := range entries {
			i = append(i, found{listener, parseImport(e, "shop")})
		}
	}
	for _, c := range []struct {
		namespace string
		host      mesh.Host
		want      []int
	}{
		{"shop", "a.com", []int{0, 3}}, {"bank", "x.b.com", []int{1}}, {"bank", "a.com", nil}, {"mall", "x.b.com", []int{0}},
		{"bank", "*.com", []int{1}}, // a rule for a wildcard holds for the narrower host that is imported
	} {
		if got := i.listeners(c.namespace, c.host); !slices.Equal(got, c.want) {
			t.Errorf("%s/%s: %v, want %v", c.namespace, c.host, got, c.want)
		}
	}
}

func TestListenerOfItsOwn(t *testing.T) {
	one := &mesh.Service{Ports: []mesh.Port{{Number: 80, Name: "http"}}}
	two := &mesh.Service{Ports: []mesh.Port{{Number: 80, Name: "http"}, {Number: 9080, Name: "web"}}}
	l := Listener{Port: 9080}
	if p, ok := l.PortOn(one); !ok || p.Number != 80 {
		t.Errorf("a service's only port is meant, not %v", p)
	}
	if p, ok := l.PortOn(two); !ok || p.Name != "web" {
		t.Errorf("the port of that number is meant, not %v", p)
	}
	if _, ok := (Listener{Port: 1}).PortOn(two); ok {
		t.Error("none of two ports is meant")
	}
	socket := Listener{Bind: "unix:///run/egress.sock"}
	mixed := &mesh.Service{
		Ports: []mesh.Port{{Number: 53, Protocol: mesh.UDP}, {Number: 7000, Protocol: mesh.TCP}, {Number: 80, Protocol: mesh.HTTP}},
	}
	for protocol, want := range map[mesh.Protocol]uint32{mesh.HTTP: 80, mesh.TCP: 7000, mesh.Unknown: 7000} {
		if p, ok := (Listener{Bind: socket.Bind, Protocol: protocol}).PortOn(mixed); !ok || p.Number != want {
			t.Errorf("a socket that speaks %v stands for port %d, want %d", protocol, p.Number, want)
		}
	}
	if !l.HasPort() || !socket.HasPort() || (Listener{}).HasPort() || l.RouteName() != "9080" || socket.RouteName() != socket.Bind {
		t.Error("which listeners are of their own, and what their routes are called")
	}
	if !l.Bound(mesh.None) || l.Bound(mesh.Redirect) || !(Listener{Capture: networking.CaptureMode_NONE}).Bound(mesh.Redirect) ||
		(Listener{Capture: networking.CaptureMode_IPTABLES}).Bound(mesh.None) {
		t.Error("who binds an address itself")
	}
}
