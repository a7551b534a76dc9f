package registry_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Registries' services are not validated before: an invalid port is left out and noted; the others are served.
func TestPortsOutOfRange(t *testing.T) {
	w := compiletest.New(t)
	key := mesh.ServiceKey{Host: "a.shop.svc.cluster.local", Namespace: "shop", Registry: "memory"}
	w.In.Apply(source.Batch{Set: source.Rows{
		Services: []*mesh.Service{{Key: key, ExportTo: []string{"*"}, Ports: []mesh.Port{
			{
				Name:   "good",
				Number: 80,
				Target: 8080,
			},
			{Name: "target", Number: 81, Target: 70000},
			{Name: "number", Number: 70001},
			{Name: "zero"},
		}}},
		Slices: []*mesh.Slice{{Key: mesh.SliceKey{Service: key}, Endpoints: []mesh.SliceEndpoint{{
			ID:       "1",
			Endpoint: mesh.Endpoint{Address: "10.0.0.1", Ports: mesh.MakeLabels(map[string]string{"good": "70002"})},
		}}}},
	}})
	w.Settle()
	got := w.ProblemText()
	for _, want := range []string{
		"port 81 of host a.shop.svc.cluster.local, with target 70000,", "port 70001 of", "port 0 of",
		`endpoint 1 serves good on "70002"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no problem says %q:\n%s", want, got)
		}
	}
	if rows := w.Print("services", ""); !strings.Contains(rows, "80") || strings.Contains(rows, "81") || strings.Contains(rows, "70001") {
		t.Errorf("the service is\n%s", rows)
	}
}

// A host of several registries has the ports of the registry with precedence: a cluster, then other platforms. If other registries give a
// port another name, or serve it elsewhere, this makes no difference to clients.
func TestPortsOfSeveralRegistries(t *testing.T) {
	w := compiletest.New(t)
	put := func(registry, object string, port mesh.Port, e mesh.Endpoint) {
		key := mesh.ServiceKey{Host: "a.shop.svc.cluster.local", Namespace: "shop", Registry: registry, Object: object}
		w.In.Apply(source.Batch{Set: source.Rows{
			Services: []*mesh.Service{{Key: key, ExportTo: []string{"*"}, Ports: []mesh.Port{port}}},
			Slices:   []*mesh.Slice{{Key: mesh.SliceKey{Service: key}, Endpoints: []mesh.SliceEndpoint{{ID: "1", Endpoint: e}}}},
		}})
	}
	on := func(name, number string) mesh.PortMap { return mesh.MakeLabels(map[string]string{name: number}) }
	put("Consul/one", "a", mesh.Port{Name: "grpc", Number: 80},
		mesh.Endpoint{Address: "10.0.0.1", Ports: on("grpc", "31001"), ListsAll: true})
	put(east, "a", mesh.Port{Name: "http", Number: 80, Target: 8080, Protocol: mesh.HTTP}, mesh.Endpoint{Address: "10.0.0.2"})
	put("Eureka/one", "b", mesh.Port{Name: "port", Number: 80, Target: 9090}, mesh.Endpoint{Address: "10.0.0.3", Ports: on("http", "1")})
	put("Eureka/two", "c", mesh.Port{Name: "port", Number: 80}, mesh.Endpoint{Address: "10.0.0.4", Ports: on("http", "1"), ListsAll: true})
	w.Connect(mesh.Proxy{ID: "sidecar~a.shop~shop", Name: "a", Namespace: "shop", IP: "10.9.0.1", IPs: "10.9.0.1"})
	w.Settle()
	got := w.ClusterText()
	for _, want := range []string{"10.0.0.1 port 31001", "10.0.0.2 port 8080", "10.0.0.3 port 9090"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "10.0.0.4") {
		t.Errorf("an endpoint serves a port that it does not list:\n%s", got)
	}
}
