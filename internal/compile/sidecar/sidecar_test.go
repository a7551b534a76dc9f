package sidecar_test

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/sidecar"
	"fairway/internal/mesh"
)

func TestParseImport(t *testing.T) {
	for s, want := range map[string]sidecar.Import{
		"./*":           {Namespace: "shop", Host: "*"},
		"*/*":           {Namespace: "*", Host: "*"},
		"bank/B.com":    {Namespace: "bank", Host: "b.com"},
		"~/*":           {Exclude: true, Namespace: "*", Host: "*"},
		"~bank/*.b.com": {Exclude: true, Namespace: "bank", Host: "*.b.com"},
		"~./a.com":      {Exclude: true, Namespace: "shop", Host: "a.com"},
		"b.com":         {Namespace: "*", Host: "b.com"},
	} {
		if got := sidecar.ParseImport(s, "shop"); got != want {
			t.Errorf("%s: %+v, want %+v", s, got, want)
		}
	}
}

func TestListenerOfItsOwn(t *testing.T) {
	one := &mesh.Service{Ports: []mesh.Port{{Number: 80, Name: "http"}}}
	two := &mesh.Service{Ports: []mesh.Port{{Number: 80, Name: "http"}, {Number: 9080, Name: "web"}}}
	l := sidecar.Listener{Port: 9080}
	if p, ok := l.PortOn(one); !ok || p.Number != 80 {
		t.Errorf("a service's only port is meant, not %v", p)
	}
	if p, ok := l.PortOn(two); !ok || p.Name != "web" {
		t.Errorf("the port of that number is meant, not %v", p)
	}
	if _, ok := (sidecar.Listener{Port: 1}).PortOn(two); ok {
		t.Error("none of two ports is meant")
	}
	socket := sidecar.Listener{Bind: "unix:///run/egress.sock"}
	mixed := &mesh.Service{
		Ports: []mesh.Port{{Number: 53, Protocol: mesh.UDP}, {Number: 7000, Protocol: mesh.TCP}, {Number: 80, Protocol: mesh.HTTP}},
	}
	for protocol, want := range map[mesh.Protocol]uint32{mesh.HTTP: 80, mesh.TCP: 7000, mesh.Unknown: 7000} {
		if p, ok := (sidecar.Listener{Bind: socket.Bind, Protocol: protocol}).PortOn(mixed); !ok || p.Number != want {
			t.Errorf("a socket that speaks %v stands for port %d, want %d", protocol, p.Number, want)
		}
	}
	if !l.HasPort() || !socket.HasPort() || (sidecar.Listener{}).HasPort() || l.RouteName() != "9080" || socket.RouteName() != socket.Bind {
		t.Error("which listeners are of their own, and what their routes are called")
	}
	if !l.Bound(mesh.None) || l.Bound(mesh.Redirect) || !(sidecar.Listener{Capture: networking.CaptureMode_NONE}).Bound(mesh.Redirect) ||
		(sidecar.Listener{Capture: networking.CaptureMode_IPTABLES}).Bound(mesh.None) {
		t.Error("who binds an address itself")
	}
}
