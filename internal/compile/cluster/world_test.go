package cluster_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	"sigs.k8s.io/yaml"

	"fairway/internal/compile"
	"fairway/internal/compile/cluster"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/envoy"
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
}

func newWorld() *world {
	g := compile.New(compile.Options{})
	return &world{Graph: g, store: g.Store, in: g.In}
}

// apply sets the objects of a YAML stream, each with its number as age.
func (w *world) apply(t testing.TB, text string) {
	t.Helper()
	w.in.Apply(source.Batch{Set: source.Rows{Objects: objects(t, text)}})
}

func objects(t testing.TB, text string) []*config.Object {
	t.Helper()
	var out []*config.Object
	for i, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(doc) != "" {
			out = append(out, object(t, doc, int64(i+1)))
		}
	}
	return out
}

func object(t testing.TB, doc string, created int64) *config.Object {
	t.Helper()
	var head struct {
		Kind     config.Kind
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec json.RawMessage
	}
	if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	spec := map[config.Kind]proto.Message{
		"ServiceEntry": &networking.ServiceEntry{}, "WorkloadEntry": &networking.WorkloadEntry{},
		"DestinationRule": &networking.DestinationRule{}, "Gateway": &networking.Gateway{},
		"PeerAuthentication": &security.PeerAuthentication{}, "Sidecar": &networking.Sidecar{},
		"VirtualService": &networking.VirtualService{}, "MeshConfig": &meshconfig.MeshConfig{},
	}[head.Kind]
	if spec == nil {
		t.Fatalf("kind %q", head.Kind)
	}
	if err := protojson.Unmarshal(head.Spec, spec); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	key := config.Key{Kind: head.Kind, Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	body, _ := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	return &config.Object{
		Key:     key,
		Labels:  mesh.MakeLabels(head.Metadata.Labels),
		Created: created,
		Spec:    spec,
		Ref: mesh.ObjectRef{
			Kind:      string(head.Kind),
			Namespace: key.Namespace,
			Name:      key.Name,
		},
		Hash: envoy.Encode(raw{spec}).Version ^ uint64(len(body)),
	}
}

// raw lends a message that cannot validate itself the method that Encode wants.
type raw struct{ proto.Message }

func (raw) ValidateAll() error { return nil }

// connect brings proxies: "sidecar <namespace> <ip> [redirect|tproxy|none] [labels] [mutual]", "router <namespace> - - <labels>".
func (w *world) connect(lines string) {
	for line := range strings.Lines(lines) {
		f := append(strings.Fields(line), "", "", "", "")
		if f[0] == "" {
			continue
		}
		first, _, _ := strings.Cut(f[2], ",")
		p := mesh.Proxy{Namespace: f[1], IP: first, IPs: f[2], Labels: mesh.Labels(f[4])}
		if f[0] == "router" {
			p.Type = mesh.Router
		}
		p.Interception = map[string]mesh.Interception{"tproxy": mesh.TProxy, "none": mesh.None}[f[3]]
		p.Mutual = strings.HasSuffix(strings.TrimSpace(line), " mutual")
		p.ID = mesh.ProxyID(strings.Join(strings.Fields(line), "~"))
		w.in.Proxies.Set(p.ID, p)
	}
}

// need has gateways with labels in a namespace refer to clusters: "<namespace> <labels> <port> <subset or -> <host>".
func (w *world) need(t testing.TB, lines string) {
	for n, line := range strings.Split(lines, "\n") {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		selector, _ := json.Marshal(mesh.Labels(f[1]).Map())
		subset := ""
		if f[3] != "-" {
			subset = ", subset: " + f[3]
		}
		w.apply(t, fmt.Sprintf(`kind: Gateway
metadata: {name: need%[1]d, namespace: %[2]s}
spec: {selector: %[3]s, servers: [{hosts: [need%[1]d.example.com], port: {number: 80, name: http, protocol: HTTP}}]}
---
kind: VirtualService
metadata: {name: need%[1]d, namespace: %[2]s}
spec:
  hosts: [need%[1]d.example.com]
  gateways: [need%[1]d]
  http: [{route: [{destination: {host: "%[4]s", port: {number: %[5]s}%[6]s}}]}]
`, n, f[0], selector, f[4], f[2], subset))
	}
}

// elsewhere says of a table that it is none of this package nor of those it is made from.
func elsewhere(table string) bool {
	return slices.ContainsFunc(
		[]string{"route/", "gateway/", "listener/", "secret", "names"},
		func(s string) bool { return strings.HasPrefix(table, s) },
	)
}

// dump prints what is published, without what all clusters have alike, and the problems.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	w.store.Read(func(tx *table.Tx) {
		published(t, tx, &out, w.Out.Resources[xdstype.Clusters], clusterText)
		out.WriteString("\n# load assignments\n")
		published(t, tx, &out, w.Out.Resources[xdstype.Loads], loadText)
		out.WriteString("\n# problems\n")
		for n := range w.store.Notes(tx) {
			if !elsewhere(n.Table) {
				fmt.Fprintf(&out, "%v\n", n.Value)
			}
		}
	})
	return out.String()
}

func published(
	t *testing.T,
	tx *table.Tx,
	out *strings.Builder,
	tables []*cluster.Published,
	text func(*testing.T, *envoy.Encoded) string,
) {
	all := map[mesh.ResourceKey]*envoy.Encoded{}
	for _, tab := range tables {
		for k, e := range table.All(tx, tab) {
			if all[k] != nil {
				t.Errorf("two tables publish %v", k)
			}
			all[k] = e
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(all), mesh.CompareResourceKey) {
		shelf := k.Shelf.String()
		if i := strings.Index(shelf, "#inbound/"); i > 0 {
			shelf = shelf[:i+len("#inbound")]
		}
		if strings.HasSuffix(k.Name, "Cluster") {
			fmt.Fprintf(out, "== %s %s\n", shelf, k.Name)
			continue
		}
		fmt.Fprintf(out, "== %s %s\n%s", shelf, k.Name, text(t, all[k]))
	}
}

func decode(t *testing.T, e *envoy.Encoded, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(e.Body, m); err != nil {
		t.Fatal(err)
	}
}

// loadText prints an assignment as a line an endpoint.
func loadText(t *testing.T, e *envoy.Encoded) string {
	t.Helper()
	m := &endpointv3.ClusterLoadAssignment{}
	decode(t, e, m)
	var out strings.Builder
	for _, l := range m.Endpoints {
		for _, e := range l.LbEndpoints {
			address := "unix://" + e.GetEndpoint().Address.GetPipe().GetPath()
			if s := e.GetEndpoint().Address.GetSocketAddress(); s != nil {
				address = fmt.Sprintf("%s port %d", s.Address, s.GetPortValue())
			}
			mutual := ""
			if e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"] != nil {
				mutual = " mutual TLS"
			}
			fmt.Fprintf(
				&out,
				"%s/%s (%d): %s weight %d %v%s\n",
				l.GetLocality().GetRegion(),
				l.GetLocality().GetZone(),
				l.LoadBalancingWeight.GetValue(),
				address,
				max(e.LoadBalancingWeight.GetValue(), 1),
				e.HealthStatus,
				mutual,
			)
		}
	}
	return out.String()
}

// clusterText prints a cluster without what all have alike.
func clusterText(t *testing.T, e *envoy.Encoded) string {
	t.Helper()
	if e.Err != nil {
		if e.Hides {
			return "withheld: " + e.Err.Error() + "\n"
		}
		return "held back: " + e.Err.Error() + "\n"
	}
	m := &clusterv3.Cluster{}
	decode(t, e, m)
	body, _ := protojson.Marshal(m)
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"name", "altStatName", "clusterName", "commonLbConfig", "circuitBreakers", "metadata", "edsClusterConfig"} {
		delete(tree, k)
	}
	tree["lbPolicy"] = m.LbPolicy.String()
	if rule := m.Metadata.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue(); rule != "" {
		tree["rule"] = rule[strings.Index(rule, "namespaces/"):]
	}
	if tree["connectTimeout"] == "10s" {
		delete(tree, "connectTimeout")
	}
	const ofHTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	if http, ok := m.TypedExtensionProtocolOptions[ofHTTP]; ok && len(http.Value) > 0 {
		options := tree["typedExtensionProtocolOptions"].(map[string]any)[ofHTTP].(map[string]any)
		delete(options, "@type")
		if _, ok := options["httpFilters"]; ok {
			delete(options, "httpFilters")
			tree["discreet"] = true // keeps from its upstream what proxies tell each other
		}
		tree["http"] = options
		delete(tree, "typedExtensionProtocolOptions")
	}
	if e.Load != "" {
		tree["load"] = e.Load
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
