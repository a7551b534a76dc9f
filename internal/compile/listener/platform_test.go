package listener_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// TestPortsOfPlatformsFollowOwnership: a TCP port of a registry's service without an address takes connections of every namespace, and a
// problem says so. If the mesh is strict, it takes only those of its own namespace, and a warning says so.
func TestPortsOfPlatformsFollowOwnership(t *testing.T) {
	w := compiletest.New(t)
	k := mesh.ServiceKey{Host: "db.consul", Namespace: "infra", Registry: "Consul/main"}
	w.In.Apply(source.Batch{Set: source.Rows{
		Services: []*mesh.Service{{
			Key: k, Resolution: mesh.ClientSide, External: true, ExportTo: []string{"*"},
			Ports:  []mesh.Port{{Name: "tcp", Number: 5432, Protocol: mesh.TCP}},
			Origin: mesh.ObjectRef{Kind: "source", Name: "Consul/main"},
		}},
		Slices: []*mesh.Slice{{Key: mesh.SliceKey{Service: k}, Endpoints: []mesh.SliceEndpoint{
			{ID: "1", Endpoint: mesh.Endpoint{Address: "10.0.0.1"}},
		}}},
	}})
	w.Connect(compiletest.Sidecar("web", "shop", "10.1.0.1"), compiletest.Sidecar("db", "infra", "10.1.0.2"))
	strict := func(say string) {
		t.Helper()
		w.Apply("kind: MeshConfig\nspec: {defaultConfig: {proxyMetadata: {FAIRWAY_OWNERSHIP: " + say + "}}}\n")
		w.Settle()
	}
	for _, c := range []struct {
		say      string
		taken    int // one of them by the address that the mesh gave it
		severity mesh.Severity
		words    string
	}{
		{"default", 2, mesh.Info, "clients of every namespace are led to it"},
		{"strict", 1, mesh.Warning, "only clients of namespace infra are led to it"},
		{"default", 2, mesh.Info, "clients of every namespace are led to it"},
	} {
		strict(c.say)
		if n := slots(w)["infra"]; n != c.taken {
			t.Errorf("%s: %d slots of every namespace lead to it, want %d", c.say, n, c.taken)
		}
		found := false
		for _, p := range w.Problems() {
			found = found || p.Code == "OwnNamespaceOnly" && p.Severity == c.severity && strings.Contains(p.Message, c.words)
		}
		if !found {
			t.Errorf("%s: no problem says %q: %v", c.say, c.words, w.Problems())
		}
	}
}
