package listener_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	"sigs.k8s.io/yaml"

	"fairway/internal/compile"
	"fairway/internal/compile/input"
	"fairway/internal/compile/listener"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener/listenertest"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// world is a graph.
type world struct {
	*compile.Graph
	store *table.Store
	in    *input.Tables
	out   *listener.Tables
}

func newWorld() *world {
	g := compile.New(compile.Options{})
	return &world{Graph: g, store: g.Store, in: g.In, out: g.Listener}
}

// apply sets the objects of a YAML stream, each with its number as age.
func (w *world) apply(t testing.TB, text string) {
	t.Helper()
	var all []*config.Object
	for i, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(doc) != "" {
			all = append(all, object(t, doc, int64(i+1)))
		}
	}
	w.in.Apply(source.Batch{Set: source.Rows{Objects: all}})
}

func object(t testing.TB, doc string, created int64) *config.Object {
	t.Helper()
	var head struct {
		Kind     config.Kind
		Metadata struct{ Name, Namespace string }
		Spec     json.RawMessage
	}
	if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	spec := map[config.Kind]proto.Message{
		"ServiceEntry": &networking.ServiceEntry{}, "WorkloadEntry": &networking.WorkloadEntry{},
		"DestinationRule":    &networking.DestinationRule{},
		"PeerAuthentication": &security.PeerAuthentication{}, "Sidecar": &networking.Sidecar{},
		"VirtualService": &networking.VirtualService{}, "MeshConfig": &meshconfig.MeshConfig{},
	}[head.Kind]
	if spec == nil {
		t.Fatalf("kind %q in:\n%s", head.Kind, doc)
	}
	if err := protojson.Unmarshal(head.Spec, spec); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	h := fnv.New64a()
	fmt.Fprint(h, created, doc)
	key := config.Key{Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	return &config.Object{Key: key, Created: created, Spec: spec, Hash: h.Sum64(),
		Ref: mesh.ObjectRef{Kind: string(key.Kind), Namespace: key.Namespace, Name: key.Name}}
}

// connect brings sidecars, one a line: "<namespace> <ip> [redirect|tproxy|none] [vip] [mutual]".
func (w *world) connect(lines string) {
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		first, _, _ := strings.Cut(f[1], ",")
		p := mesh.Proxy{
			ID:        mesh.ProxyID(strings.Join(f, "~")),
			Namespace: f[0],
			IP:        first,
			IPs:       f[1],
			AutoVIP:   slices.Contains(f, "vip"),
			Mutual:    slices.Contains(f, "mutual"),
		}
		switch {
		case slices.Contains(f, "tproxy"):
			p.Interception = mesh.TProxy
		case slices.Contains(f, "none"):
			p.Interception = mesh.None
		}
		w.in.Proxies.Set(p.ID, p)
	}
}

func (w *world) settle(t testing.TB) table.Turn {
	t.Helper()
	turn := w.store.Settle()
	for _, p := range turn.Panics {
		t.Fatalf("%v\n%s", p, p.Stack)
	}
	return turn
}

// published gives all that is published.
func (w *world) published(t testing.TB) map[mesh.ResourceKey]*envoy.Encoded {
	t.Helper()
	all := map[mesh.ResourceKey]*envoy.Encoded{}
	w.store.Read(func(tx *table.Tx) {
		for _, tab := range []*listener.Published{w.out.Listeners, w.out.Virtual, w.out.Inbound} {
			for k, e := range table.All(tx, tab) {
				if all[k] != nil {
					t.Errorf("two tables publish %v", k)
				}
				all[k] = e
			}
		}
	})
	return all
}

// sees gives each proxy's listeners: of those of one name, the one on the higher shelf.
func (w *world) sees(t testing.TB) map[mesh.ProxyID]map[string]*envoy.Encoded {
	t.Helper()
	all := w.published(t)
	out := map[mesh.ProxyID]map[string]*envoy.Encoded{}
	w.store.Read(func(tx *table.Tx) {
		for id, a := range table.All(tx, w.Graph.Out.Attachments) {
			out[id] = map[string]*envoy.Encoded{}
			for _, shelf := range a[xdstype.Listeners] {
				for k, e := range all {
					if k.Shelf == shelf {
						out[id][k.Name] = e
					}
				}
			}
		}
	})
	return out
}

// routes gives the names of a proxy's route configurations.
func (w *world) routes(t testing.TB, id mesh.ProxyID) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	w.store.Read(func(tx *table.Tx) {
		a, _ := table.Lookup(tx, w.Graph.Out.Attachments, id)
		for k := range table.All(tx, w.Route.Routes) {
			if slices.Contains(a[xdstype.Routes], k.Shelf) {
				out[k.Name] = true
			}
		}
	})
	return out
}

// dump describes what is published, with the clusters that each listener needs, and the problems.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	all := w.published(t)
	for _, k := range slices.SortedFunc(maps.Keys(all), mesh.CompareResourceKey) {
		l := listenertest.Decode(t, k.Name, all[k])
		if l.GetName() != k.Name {
			t.Errorf("%v is named %q", k, l.GetName())
		}
		shelf, _, _ := strings.Cut(k.Shelf.String(), "inbound/")
		fmt.Fprintf(&out, "%s | %s", shelf, listenertest.Describe(l))
		if len(all[k].Needs) > 0 {
			fmt.Fprintf(&out, "  needs %s\n", strings.Join(all[k].Needs, ", "))
		}
	}
	w.store.Read(func(tx *table.Tx) {
		var problems []string
		for n := range w.store.Notes(tx) {
			problems = append(problems, fmt.Sprint(n.Value)+"\n")
		}
		slices.Sort(problems)
		out.WriteString(strings.Join(problems, ""))
	})
	return out.String()
}
