// Package routetest is a world for tests of compile/route and compile/gateway: the graph, objects and proxies out of text, and
// what is published as text. It is for tests alone.
package routetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// World is a graph with the means to feed it and to look at what routes and gateways make.
type World struct {
	*compile.Graph

	age int64
}

// New returns a world without objects and proxies.
func New() *World { return &World{Graph: compile.New(compile.Options{})} }

// Apply stages the objects of a YAML stream; each is younger than those before. An object that was there keeps its age.
func (w *World) Apply(t testing.TB, text string) {
	t.Helper()
	var set []*config.Object
	for doc := range strings.SplitSeq(text, "\n---\n") {
		if strings.TrimSpace(doc) != "" {
			w.age++
			set = append(set, object(t, doc, w.age))
		}
	}
	w.In.Apply(source.Batch{Set: source.Rows{Objects: set}})
}

// Delete takes objects away: "VirtualService default/reviews", one a line.
func (w *World) Delete(lines string) {
	var keys []config.Key
	for line := range strings.Lines(lines) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		namespace, name, _ := strings.Cut(name, "/")
		keys = append(keys, config.Key{Kind: config.Kind(kind), Namespace: namespace, Name: name})
	}
	w.In.Apply(source.Batch{Gone: source.Keys{Objects: keys}})
}

// Connect brings proxies: "sidecar <namespace> <ip> [labels]" or "router <namespace> <ip> [labels]", one a line.
func (w *World) Connect(lines string) {
	for line := range strings.Lines(lines) {
		f := append(strings.Fields(line), "", "", "", "")
		p := mesh.Proxy{
			ID:        mesh.ProxyID(strings.Join(strings.Fields(line), "~")),
			Namespace: f[1],
			IP:        f[2],
			IPs:       f[2],
			Labels:    mesh.Labels(f[3]),
			Standing:  mesh.Here,
		}
		if f[0] == "router" {
			p.Type = mesh.Router
		}
		if f[0] != "" {
			w.In.Proxies.Set(p.ID, p)
		}
	}
}

func object(t testing.TB, doc string, created int64) *config.Object {
	t.Helper()
	var head struct {
		Kind     config.Kind
		Metadata struct{ Name, Namespace string }
		Spec     json.RawMessage

		Credential struct{ Chain, CA, CRL string } // of a Secret, without its key
	}
	if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	if head.Kind == config.Secret {
		c := head.Credential
		return &config.Object{
			Key:     config.Key{Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name},
			Created: created,
			Spec:    &structpb.Struct{},
			Hash: xxhash.Sum64(
				[]byte(doc),
			),
			Credential: &config.Credential{Chain: bytesOf(c.Chain), CA: bytesOf(c.CA), CRL: bytesOf(c.CRL), Holders: config.AnyHolder},
		}
	}
	specs := map[config.Kind]proto.Message{
		config.ServiceEntry:    &networking.ServiceEntry{},
		config.VirtualService:  &networking.VirtualService{},
		config.DestinationRule: &networking.DestinationRule{},
		config.Gateway:         &networking.Gateway{},
		config.Sidecar:         &networking.Sidecar{},
		config.MeshConfig:      &meshconfig.MeshConfig{},
		config.WorkloadGroup:   &networking.WorkloadGroup{},
	}
	spec := specs[head.Kind]
	if spec == nil {
		t.Fatalf("kind %q in:\n%s", head.Kind, doc)
	}
	if err := protojson.Unmarshal(head.Spec, spec); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	if head.Metadata.Namespace == "" && head.Kind != config.MeshConfig {
		head.Metadata.Namespace = "default"
	}
	key := config.Key{Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return &config.Object{Key: key, Created: created, Spec: spec, Hash: xxhash.Sum64(body),
		Ref: mesh.ObjectRef{Kind: string(key.Kind), Namespace: key.Namespace, Name: key.Name}}
}

func bytesOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// Published gathers tables of one type.
func (w *World) Published(tables ...*table.Table[mesh.ResourceKey, *envoy.Encoded]) map[mesh.ResourceKey]*envoy.Encoded {
	out := map[mesh.ResourceKey]*envoy.Encoded{}
	w.Store.Read(func(tx *table.Tx) {
		for _, t := range tables {
			for k, e := range table.All(tx, t) {
				out[k] = e
			}
		}
	})
	return out
}

// VirtualHosts, Routes and Listeners are all that is published of a type.
func (w *World) VirtualHosts() map[mesh.ResourceKey]*envoy.Encoded {
	return w.Published(w.Route.VirtualHosts, w.Gateway.VirtualHosts, w.Gateway.RedirectHosts)
}

// Routes are the route configurations.
func (w *World) Routes() map[mesh.ResourceKey]*envoy.Encoded {
	return w.Published(w.Route.Routes, w.Gateway.Routes)
}

// Listeners are gateways' listeners.
func (w *World) Listeners() map[mesh.ResourceKey]*envoy.Encoded {
	return w.Published(w.Gateway.Listeners)
}

// Dump prints what is published, shelf by shelf, without what every one has, then what gateways need, then the problems of these rooms.
func (w *World) Dump(t testing.TB) string {
	t.Helper()
	shelves := map[string]map[string]any{}
	put := func(kind string, all map[mesh.ResourceKey]*envoy.Encoded, empty func() proto.Message) {
		for k, e := range all {
			shelf := kind + " " + k.Shelf.String()
			if shelves[shelf] == nil {
				shelves[shelf] = map[string]any{}
			}
			shelves[shelf][k.Name] = show(t, e, empty())
		}
	}
	put("virtual hosts", w.VirtualHosts(), func() proto.Message { return &routev3.VirtualHost{} })
	put("routes", w.Routes(), func() proto.Message { return &routev3.RouteConfiguration{} })
	put("secrets", w.Published(w.Out.Resources[xdstype.Secrets]...), func() proto.Message { return &tlsv3.Secret{} })
	put("listeners", w.Listeners(), func() proto.Message { return &listenerv3.Listener{} })
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(shelves)) {
		body, err := yaml.Marshal(shelves[name])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %s\n%s", name, body)
	}
	w.needs(&out)
	for _, p := range w.Problems() {
		fmt.Fprintf(&out, "! %s\n", p)
	}
	return out.String()
}

func (w *World) needs(out *strings.Builder) {
	w.Store.Read(func(tx *table.Tx) {
		for k := range table.All(tx, w.Gateway.Clusters) {
			fmt.Fprintf(out, "> %s needs %s\n", k.Layer, k.Cluster)
		}
	})
}

// Problems lists the notes of the tables of route and gateway, in order.
func (w *World) Problems() []mesh.Problem {
	var out []mesh.Problem
	w.Store.Read(func(tx *table.Tx) {
		for n := range w.Store.Notes(tx) {
			p, ok := n.Value.(mesh.Problem)
			if !ok {
				p = mesh.Problem{Code: code.Note, Message: fmt.Sprint(n.Value)}
			}
			if strings.HasPrefix(n.Table, "route/") || strings.HasPrefix(n.Table, "gateway/") || !ok {
				out = append(out, p)
			}
		}
	})
	slices.SortFunc(out, mesh.CompareProblem)
	return out
}

// show decodes a resource and leaves out what all of its type have.
func show(t testing.TB, e *envoy.Encoded, m proto.Message) any {
	t.Helper()
	if e.Err != nil {
		return "refused: " + e.Err.Error()
	}
	if err := proto.Unmarshal(e.Body, m); err != nil {
		t.Fatal(err)
	}
	if c, ok := m.(*routev3.RouteConfiguration); ok {
		c.RequestHeadersToAdd, c.RequestHeadersToRemove = nil, nil // who calls
	}
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return trim(v)
}

// trim leaves out what all resources of a type have: timeouts that are none, default retries, decorators, and of HTTP
// connection managers all but their routes.
func trim(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = trim(v[i])
		}
	case map[string]any:
		if rds, ok := v["rds"].(map[string]any); ok {
			return map[string]any{"routes": rds["routeConfigName"], "statPrefix": v["statPrefix"]}
		}
		for _, k := range []string{
			"decorator", "includeRequestAttemptCount", "validateClusters", "ignorePortInHostMatching",
			"maxDirectResponseBodySizeBytes", "maxStreamDuration", "retryPolicy",
		} {
			delete(v, k)
		}
		if v["timeout"] == "0s" {
			delete(v, "timeout")
		}
		for k := range v {
			v[k] = trim(v[k])
		}
	}
	return v
}
