package compiletest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/envoy/names"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// World is a graph with the means to feed it and to look at it. It belongs to one test.
type World struct {
	*compile.Graph
	t       testing.TB
	decoder *config.Decoder
	age     int64 // of the next object without creationTimestamp: the order of applying
	ages    map[config.Key]int64
}

// New returns a world without objects and proxies. A row that is written to ends the test.
func New(t testing.TB) *World {
	t.Helper()
	return newWorld(t, compile.Options{Invariants: true})
}

// InCluster is New for a control plane that reads its rules from a cluster, and deploys Gateways there.
func InCluster(t testing.TB, cluster string) *World {
	t.Helper()
	return newWorld(t, compile.Options{Invariants: true, Cluster: cluster, DeployGateways: true})
}

// Large is New for a world of many rows, without the check of all rows in each turn.
func Large(t testing.TB) *World {
	t.Helper()
	return newWorld(t, compile.Options{})
}

// decoder is the one that all worlds share: what it prepares for a kind takes longer than most worlds do.
var decoder = sync.OnceValues(func() (*config.Decoder, error) { return config.NewDecoder(config.Options{}) })

func newWorld(t testing.TB, opts compile.Options) *World {
	t.Helper()
	d, err := decoder()
	if err != nil {
		t.Fatal(err)
	}
	opts.Keys.Fetched, opts.Resolves, opts.Selecting = true, true, true
	return &World{Graph: compile.New(opts), t: t, decoder: d, ages: map[config.Key]int64{}}
}

// Apply stages the objects of a YAML stream. An object without creationTimestamp is younger than all objects that were first applied before
// it.
func (w *World) Apply(text string) {
	w.t.Helper()
	w.In.Apply(source.Batch{Set: source.Rows{Objects: w.Decode(text)}})
}

// Decode returns the objects of a YAML stream, with their ages.
func (w *World) Decode(text string) (all []*config.Object) {
	w.t.Helper()
	for _, doc := range config.Split("test.yaml", []byte(text)) {
		if o := w.decode(doc); o != nil {
			all = append(all, o)
		}
	}
	return all
}

func (w *World) decode(doc config.Document) *config.Object {
	w.t.Helper()
	if bytes.Contains(doc.Text, []byte("kind: MeshConfig")) {
		return w.meshObject(doc, config.MeshConfig, &meshconfig.MeshConfig{})
	}
	if bytes.Contains(doc.Text, []byte("kind: MeshNetworks")) {
		return w.meshObject(doc, config.MeshNetworks, &meshconfig.MeshNetworks{})
	}
	o, problems := w.decoder.Decode(doc)
	for _, p := range problems {
		if p.Severity == mesh.Error {
			w.t.Fatal(p)
		}
	}
	if o == nil || o.Created != 0 {
		return o
	}
	if w.ages[o.Key] == 0 {
		w.age++
		w.ages[o.Key] = w.age
	}
	aged := *o
	aged.Created = w.ages[o.Key]
	return &aged
}

// meshObject parses a document of a kind that is an object only in these tests.
func (w *World) meshObject(doc config.Document, kind config.Kind, spec proto.Message) *config.Object {
	w.t.Helper()
	var head struct{ Spec map[string]any }
	if err := yaml.Unmarshal(doc.Text, &head); err != nil {
		w.t.Fatal(err)
	}
	text, err := yaml.Marshal(head.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		w.t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, spec); err != nil {
		w.t.Fatal(err)
	}
	return &config.Object{
		Key:  config.Key{Kind: kind},
		Spec: spec,
		Ref:  mesh.ObjectRef{Kind: string(kind)},
		Hash: xxhash.Sum64(doc.Text),
	}
}

// Delete stages the removal of an object.
func (w *World) Delete(kind, namespace, name string) {
	w.In.Apply(source.Batch{Gone: source.Keys{Objects: []config.Key{{Kind: config.Kind(kind), Namespace: namespace, Name: name}}}})
}

// Sidecar returns a plain sidecar, for Connect.
func Sidecar(name, namespace, ip string) mesh.Proxy {
	id := mesh.ProxyID(fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.cluster.local", ip, name, namespace, namespace))
	return mesh.Proxy{ID: id, Name: name, Namespace: namespace, IP: ip, IPs: ip}
}

// Connect stages connected proxies.
func (w *World) Connect(proxies ...mesh.Proxy) {
	for _, p := range proxies {
		w.In.Proxies.Set(p.ID, p)
	}
}

// Settle runs a turn and fails the test if a derivation panicked.
func (w *World) Settle() table.Turn {
	w.t.Helper()
	turn := w.Store.Settle()
	for _, p := range turn.Panics {
		w.t.Fatalf("%v\n%s", p, p.Stack)
	}
	w.Remember()
	return turn
}

// Print returns a table's rows as the table prints them.
func (w *World) Print(name, filter string) string {
	w.t.Helper()
	var b strings.Builder
	w.Store.Read(func(tx *table.Tx) {
		if err := w.Store.Print(&b, tx, name, filter); err != nil {
			w.t.Fatal(err)
		}
	})
	return b.String()
}

// ProblemText lists all problems, one a line.
func (w *World) ProblemText() string {
	var b strings.Builder
	for _, p := range w.Problems() {
		p.Object.File = "" // of the test
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// NameText lists the names that are published: shelf, resource, then each name with its addresses.
func (w *World) NameText() string {
	w.t.Helper()
	var b strings.Builder
	all := w.Published(xdstype.NameTables)
	for _, k := range inOrder(all) {
		entries, err := names.Decode(all[k].Body)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", k.Shelf, k.Name)
		for _, entry := range entries {
			fmt.Fprintf(&b, "\t%s\n", entry)
		}
	}
	return b.String()
}
