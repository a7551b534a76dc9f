package live

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/test/rig"
)

// Address returns the value of ${ip:NAME} in rules: the address that IP(NAME) returns; and of ${file:NAME}: the path that File returns.
func (m *Mesh) Address(name string) (string, bool) {
	if file, ok := strings.CutPrefix(name, "file:"); ok {
		return m.File(file), true
	}
	name, ok := strings.CutPrefix(name, "ip:")
	if !ok {
		return "", false
	}
	return m.IP(name), true
}

// File is the path of a file of this mesh that its proxies may write, or of a socket; it may not be there yet.
func (m *Mesh) File(name string) string { return filepath.Join(m.dir, name) }

// Rules are the test's own, from the folder testdata as rig.Text reads them, with the addresses of this mesh and the
// pairs of names and values given in the place of names.
func (m *Mesh) Rules(t testing.TB, name string, pairs ...any) string {
	t.Helper()
	return rig.Text(t, name, rig.Pairs(pairs...), m.Address)
}

// Apply sets the objects of YAML documents in one batch, and waits until they are in force in every proxy.
func (m *Mesh) Apply(t testing.TB, yaml ...string) {
	t.Helper()
	m.Set(t, yaml...)
	m.Settle(t)
}

// Set sets the objects of YAML documents in one batch, and does not wait. A document that does not decode fails the test.
func (m *Mesh) Set(t testing.TB, yaml ...string) {
	t.Helper()
	m.Plane.Rules.Set(m.Decode(t, strings.Join(yaml, "\n---\n"))...)
}

// Decode reads YAML documents as a source does. Errors in them fail the test.
func (m *Mesh) Decode(t testing.TB, yaml string) []*config.Object {
	t.Helper()
	objects, problems := m.TryDecode(yaml)
	for _, p := range problems {
		if p.Severity == mesh.Error {
			t.Errorf("rule of the test: %s", p)
		}
	}
	if t.Failed() && len(objects) == 0 {
		t.FailNow()
	}
	return objects
}

// TryDecode reads YAML documents and returns the valid objects and the problems.
func (m *Mesh) TryDecode(yaml string) (objects []*config.Object, problems []mesh.Problem) {
	for _, doc := range strings.Split(yaml, "\n---") {
		o, p := m.decoder.Decode(config.Document{Text: []byte(doc)})
		problems = append(problems, p...)
		if o != nil {
			objects = append(objects, o)
		}
	}
	return objects, problems
}

// Delete takes objects away, written "VirtualService reviews" (of namespace default) or "VirtualService shop/reviews",
// in one batch, and waits until every proxy knows.
func (m *Mesh) Delete(t testing.TB, objects ...string) {
	t.Helper()
	m.Drop(objects...)
	m.Settle(t)
}

// Drop is Delete without waiting.
func (m *Mesh) Drop(objects ...string) {
	keys := make([]config.Key, len(objects))
	for i, o := range objects {
		keys[i] = keyOf(o)
	}
	m.Plane.Rules.Delete(keys...)
}

// setMeshConfig sets the mesh configuration of a control plane that may not run yet.
func (m *Mesh) setMeshConfig(t testing.TB, p *Plane, yaml string) {
	t.Helper()
	o, problems := m.decoder.DecodeMeshConfig(config.Document{Text: []byte(rig.Fill(t, "mesh configuration", yaml, m.Address))})
	if o == nil {
		t.Fatalf("mesh configuration of the test: %v", problems)
	}
	p.Rules.Set(allowLoopback(o))
}

// setNetworks sets the networks of a control plane that may not run yet.
func (m *Mesh) setNetworks(t testing.TB, p *Plane, yaml string) {
	t.Helper()
	o, problems := m.decoder.DecodeMeshNetworks(config.Document{Text: []byte(rig.Fill(t, "networks", yaml, m.Address))})
	if o == nil {
		t.Fatalf("networks of the test: %v", problems)
	}
	p.Rules.Set(o)
}

// allowLoopback lets rules send every proxy to loopback addresses, which all workloads of a test have, unless the test
// itself says which proxies may.
func allowLoopback(o *config.Object) *config.Object {
	spec := proto.CloneOf(config.Spec[*meshconfig.MeshConfig](o))
	metadata := maps.Clone(spec.GetDefaultConfig().GetProxyMetadata())
	if _, said := metadata[config.LocalEndpointsKey]; said {
		return o
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[config.LocalEndpointsKey] = "*"
	if spec.DefaultConfig == nil {
		spec.DefaultConfig = &meshconfig.ProxyConfig{}
	}
	spec.DefaultConfig.ProxyMetadata = metadata
	allowed := *o
	allowed.Spec, allowed.Hash = spec, o.Hash+1
	return &allowed
}

// MeshConfig sets the mesh configuration and waits until it is in force.
func (m *Mesh) MeshConfig(t testing.TB, yaml string) {
	t.Helper()
	m.setMeshConfig(t, m.Plane, yaml)
	m.Settle(t)
}

// WriteFile puts a file of rules into the mesh's folder as a careful program does: written aside, then renamed. It does not wait.
func (m *Mesh) WriteFile(t testing.TB, name, yaml string) {
	t.Helper()
	aside := filepath.Join(m.dir, name+".new")
	if err := os.WriteFile(aside, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, filepath.Join(m.Folder, name)); err != nil {
		t.Fatal(err)
	}
}

// ProblemsOf are those in force about an object written as Delete takes them.
func (m *Mesh) ProblemsOf(object string) (problems []mesh.Problem) {
	k := keyOf(object)
	for _, p := range m.Plane.Problems() {
		if p.Object.Kind == string(k.Kind) && p.Object.Namespace == k.Namespace && p.Object.Name == k.Name {
			problems = append(problems, p)
		}
	}
	return problems
}

// keyOf reads an object written as Delete takes them.
func keyOf(object string) config.Key {
	kind, name, _ := strings.Cut(object, " ")
	namespace, rest, ok := strings.Cut(name, "/")
	if !ok {
		namespace, rest = "default", name
	}
	return config.Key{Kind: config.Kind(kind), Namespace: namespace, Name: rest}
}
