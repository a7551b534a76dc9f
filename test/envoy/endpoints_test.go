package envoy

import (
	"fmt"
	"testing"

	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/source"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

func endpoints() []feature {
	return []feature{
		{"endpoints: weights", endpointWeights},
		{"endpoints: draining and unhealthy", endpointHealth},
		{"endpoints: two families", endpointFamilies},
		{"endpoints: another name for a service", endpointAlias},
	}
}

// registered returns a service as a registry knows it, and a function that makes its endpoints: "a" is the backend and address of that
// name.
func registered(m *live.Mesh, host mesh.Host) (*mesh.Service, func(string, mesh.Endpoint) *mesh.Slice) {
	key := mesh.ServiceKey{Host: host, Namespace: "default", Registry: "Memory"}
	s := &mesh.Service{
		Key:        key,
		Ports:      []mesh.Port{{Name: "http", Number: 8000, Target: live.Backing, Protocol: mesh.HTTP}},
		Resolution: mesh.ClientSide,
		ExportTo:   []string{"*"},
	}
	return s, func(name string, e mesh.Endpoint) *mesh.Slice {
		e.Address = m.IP(name)
		return &mesh.Slice{Key: mesh.SliceKey{Service: key, Name: name}, Endpoints: []mesh.SliceEndpoint{{ID: name, Endpoint: e}}}
	}
}

func set(t *testing.T, m *live.Mesh, make func(string, mesh.Endpoint) *mesh.Slice, states map[string]mesh.Endpoint) {
	t.Helper()
	var all []*mesh.Slice
	for name, state := range states {
		all = append(all, make(name, state))
	}
	m.Plane.Rules.Add(source.Rows{Slices: all})
	m.Settle(t)
}

// endpointWeights: endpoints get their share.
func endpointWeights(t *testing.T, m *live.Mesh) {
	m.Backends(t, "eweight-a", "eweight-b")
	s, endpoint := registered(m, "eweight.test")
	m.Plane.Rules.Add(source.Rows{Services: []*mesh.Service{s}})
	set(t, m, endpoint, map[string]mesh.Endpoint{"eweight-a": {Weight: 3}, "eweight-b": {Weight: 1}})
	got := live.Tally(t, 400, from(m, "eweight.test"))
	if n := got["eweight-b"]; n < 56 || n > 144 || n+got["eweight-a"] != 400 {
		t.Errorf("3:1 came out as %v", got)
	}
}

// endpointHealth: proxies get the state of a draining or unhealthy endpoint, and it gets no new requests.
func endpointHealth(t *testing.T, m *live.Mesh) {
	m.Backends(t, "ehealth-a", "ehealth-b")
	s, endpoint := registered(m, "ehealth.test")
	m.Plane.Rules.Add(source.Rows{Services: []*mesh.Service{s}})
	for _, state := range []mesh.Health{mesh.Draining, mesh.Unhealthy} {
		set(t, m, endpoint, map[string]mesh.Endpoint{"ehealth-a": {}, "ehealth-b": {Health: state}})
		if got := live.Tally(t, 30, from(m, "ehealth.test")); got["ehealth-a"] != 30 {
			t.Errorf("with b %s: %v", state, got)
		}
		flags := m.Envoy(client).Hosts(t, "outbound|8000||ehealth.test")
		if f := flags[m.Addr("ehealth-b", live.Backing)]; f == "healthy" || f == "" {
			t.Errorf("b is %s, the proxy takes it for %q (%v)", state, f, flags)
		}
	}
	set(t, m, endpoint, map[string]mesh.Endpoint{"ehealth-b": {}})
	if got := live.Tally(t, 40, from(m, "ehealth.test")); got["ehealth-a"] == 0 || got["ehealth-b"] == 0 {
		t.Errorf("with both healthy: %v", got)
	}
}

// endpointFamilies: an endpoint with an address of each family is one endpoint, with one share; if the first address does not answer, the
// second serves.
func endpointFamilies(t *testing.T, m *live.Mesh) {
	six := m.BackendAt(t, "efamilies-b", "[::1]:0")
	m.BackendAt(t, "efamilies-a", m.Addr("efamilies-a", six.Port()))
	s, endpoint := registered(m, "efamilies.test")
	s.Ports[0].Target = uint32(six.Port())
	m.Plane.Rules.Add(source.Rows{Services: []*mesh.Service{s}})
	also := mesh.MakeOthers("::1")
	set(t, m, endpoint, map[string]mesh.Endpoint{"efamilies-b": {Also: also}})
	if got := live.Tally(t, 40, from(m, "efamilies.test")); got["efamilies-b"] != 40 {
		t.Errorf("nobody is at the first address: %v", got)
	}
	set(t, m, endpoint, map[string]mesh.Endpoint{"efamilies-b": {Also: also}, "efamilies-a": {Also: also}})
	if got := live.Tally(t, 300, from(m, "efamilies.test")); got["efamilies-a"] < 100 || got["efamilies-a"]+got["efamilies-b"] != 300 {
		t.Errorf("of two endpoints one answers at its first address: %v", got)
	}
}

// endpointAlias: a Service of type ExternalName answers by all its names as its target does, by the target's rules, from when the target
// exists until it is removed.
func endpointAlias(t *testing.T, m *live.Mesh) {
	m.Backends(t, "ealias-a", "ealias-b")
	key := mesh.ServiceKey{Host: "ealias-front.default.svc.cluster.local", Namespace: "default", Registry: "Kubernetes/live", Object: "f"}
	front := &mesh.Service{Key: key, Resolution: mesh.DNS, External: true, ExportTo: []string{"*"}}
	m.Plane.Rules.Add(source.Rows{Services: []*mesh.Service{front}, Slices: []*mesh.Slice{{
		Key:       mesh.SliceKey{Service: key, Name: alias.Slice},
		Endpoints: []mesh.SliceEndpoint{{ID: "ealias.test", Endpoint: mesh.Endpoint{Address: "ealias.test"}}},
	}}})
	m.Settle(t)
	names := []string{"ealias-front", "ealias-front.default", "ealias-front.default.svc.cluster.local:8000"}
	refused := func(when string) {
		t.Helper()
		for _, name := range names {
			if got := live.Send(t, from(m, name)); got.Status == 200 {
				t.Errorf("%s %s is served: %v", when, name, got)
			}
		}
	}
	refused("before")
	s, endpoint := registered(m, "ealias.test")
	m.Plane.Rules.Add(source.Rows{Services: []*mesh.Service{s}})
	set(t, m, endpoint, map[string]mesh.Endpoint{"ealias-a": {}})
	for _, name := range names {
		wantServer(t, live.Send(t, from(m, name)), "ealias-a")
	}
	set(t, m, endpoint, map[string]mesh.Endpoint{"ealias-b": {}})
	for _, name := range names {
		rig.Eventually(t, func() error { // Envoy's workers hear of endpoints a moment after it has acknowledged them
			if r := live.Send(t, from(m, name)); r.Echo.Server != "ealias-b" {
				return fmt.Errorf("%s is answered by %q", name, r.Echo.Server)
			}
			return nil
		})
	}
	m.Plane.Rules.Remove(source.Keys{Services: []mesh.ServiceKey{s.Key}})
	m.Settle(t)
	refused("after")
}
