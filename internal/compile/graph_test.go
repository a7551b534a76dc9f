package compile_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

func sortedProxies(m map[mesh.ProxyID]mesh.Proxy) []mesh.ProxyID { return slices.Sorted(maps.Keys(m)) }

func sortedObjects(m map[config.Key]string) []config.Key {
	return slices.SortedFunc(maps.Keys(m), config.CompareKey)
}

func find(problems []mesh.Problem, code string) (found []mesh.Problem) {
	for _, p := range problems {
		if p.Code == code {
			found = append(found, p)
		}
	}
	return found
}

// A refused resource is blamed on the object that shaped it, until the resource has changed.
func TestRefusalsNameTheObject(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(service(0, "") + virtualService(0, 90) + destinationRule(0, 100))
	p := compiletest.Sidecar("p", "ns0", "10.250.0.1")
	w.Connect(p)
	w.Settle()
	const cluster, host = "outbound|80|v1|s0.ns0.svc.cluster.local", "80/s0.ns0.svc.cluster.local:80"
	w.Reject("type.googleapis.com/envoy.config.cluster.v3.Cluster", []string{cluster, "unknown"}, p.ID, "bad cluster")
	w.Reject("type.googleapis.com/envoy.config.route.v3.VirtualHost", []string{host}, p.ID, "bad host")
	w.Settle()
	refused := find(w.Problems(), "Refused")
	if len(refused) != 2 || refused[0].Object.Kind != "DestinationRule" || refused[1].Object.Kind != "VirtualService" ||
		!strings.Contains(refused[0].Message, "bad cluster") {
		t.Fatalf("%v", refused)
	}
	w.Apply(destinationRule(0, 101))
	w.Settle()
	if refused = find(w.Problems(), "Refused"); len(refused) != 1 || refused[0].Object.Kind != "VirtualService" {
		t.Fatalf("after the rule has changed: %v", refused)
	}
	w.Reject("type.googleapis.com/envoy.config.route.v3.VirtualHost", nil, p.ID, "")
	w.Settle()
	w.Store.Read(func(tx *table.Tx) {
		if n := table.Len(tx, w.In.Rejections.Table); n != 1 {
			t.Errorf("%d refusals are kept, one still holds", n)
		}
	})
}

// A problem that a source reports of a file stays until the source no longer reports it.
func TestFileProblems(t *testing.T) {
	w := compiletest.New(t)
	bad := mesh.Problem{
		Object:   mesh.ObjectRef{Kind: "file", File: "a.yaml", Line: 3},
		Code:     "Syntax",
		Severity: mesh.Error,
		Message:  "not YAML",
	}
	at := source.Place{Source: "file", Name: "a.yaml"}
	w.In.Apply(source.Batch{Problems: map[source.Place][]mesh.Problem{at: {bad}}})
	w.Settle()
	if got := w.Problems(); !slices.Equal(got, []mesh.Problem{bad}) {
		t.Fatalf("%v", got)
	}
	w.In.Apply(source.Batch{Problems: map[source.Place][]mesh.Problem{at: nil}})
	w.Settle()
	if got := w.Problems(); len(got) != 0 {
		t.Fatalf("%v", got)
	}
}

// Kinds without behaviour are kept, and say so; a registry's rows come and go like objects.
func TestInputs(t *testing.T) {
	w := compiletest.New(t)
	w.Apply("apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\nmetadata: {name: default, namespace: shop}\n" +
		"spec: {concurrency: 1}\n")
	svc := &mesh.Service{
		Key:   mesh.ServiceKey{Host: "m.example", Namespace: "shop", Registry: "memory"},
		Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
	}
	slice := &mesh.Slice{Key: mesh.SliceKey{Service: svc.Key}, Endpoints: []mesh.SliceEndpoint{
		{ID: "1", Endpoint: mesh.Endpoint{Address: "10.0.0.1", Health: mesh.Draining}},
	}}
	w.In.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{svc}, Slices: []*mesh.Slice{slice}}})
	w.Settle()
	later := find(w.Problems(), "NotYet")
	if len(later) != 1 || later[0].Object.Name != "default" || len(w.Objects()) != 1 || w.Services() != 1 {
		t.Fatalf("%v, %d objects, %d services", later, len(w.Objects()), w.Services())
	}
	if got := w.Print("endpoints", ""); !strings.Contains(got, "DRAINING") {
		t.Errorf("endpoints:\n%s", got)
	}
	w.In.Apply(source.Batch{Gone: source.Keys{Services: []mesh.ServiceKey{svc.Key}, Slices: []mesh.SliceKey{slice.Key}}})
	w.Settle()
	if w.Services() != 0 || strings.Contains(w.Print("endpoints", ""), "10.0.0.1") {
		t.Error("a removed service is still there")
	}
}

// A change of one field of the mesh's configuration touches only rows that read it.
func TestSettingsAreReadByField(t *testing.T) {
	w := meshOf(t, 100)
	w.Apply("kind: MeshConfig\nspec: {connectTimeout: 3s}\n")
	w.Settle()
	w.Apply("kind: MeshConfig\nspec: {connectTimeout: 3s, hboneIdleTimeout: 3s, ingressControllerMode: STRICT}\n")
	// The settings, two fields looked at for keys of our own and for cluster-local hosts each, the notes, those of telemetry, three looks
	// for networks: their ranges, their gateways, and the names of these.
	if rows := w.Settle().Recomputed; rows > 10 {
		t.Errorf("a field that nobody reads made %d rows compute", rows)
	}
	if idle := find(w.Problems(), "Unused"); len(idle) != 1 || idle[0].Field != "hboneIdleTimeout" {
		t.Errorf("fields without effect: %v", idle)
	}
}
