package cluster_test

import (
	"encoding/json"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/golden"
	"fairway/internal/mesh"
)

// world is a golden file's first document: a service and the conditions under which its cluster is built.
type world struct {
	Host, Resolution string
	Identities       []string
	Gateway          bool
	Ports            []struct {
		Name, Protocol string
		Number         uint32
	}
	Endpoints []struct{ Address string }
	Defaults  struct {
		StatName string
		Upgrade  bool
		Pool     bool
	}
}

var resolutions = map[string]mesh.Resolution{
	"":                mesh.ClientSide,
	"STATIC":          mesh.ClientSide,
	"NONE":            mesh.Passthrough,
	"DNS":             mesh.DNS,
	"DNS_ROUND_ROBIN": mesh.DNSRoundRobin,
}

func TestOutboundGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		w, rule := read(t, a)
		got := render(t, w, rule)
		if again := render(t, w, rule); again != got {
			t.Errorf("built twice, differs:\n%s", cmp.Diff(got, again))
		}
		a.Result(t, "clusters.yaml", got)
	})
}

func read(t *testing.T, archive *golden.Archive) (world, *networking.DestinationRule) {
	t.Helper()
	var w world
	if err := yaml.UnmarshalStrict(archive.Files[0].Data, &w); err != nil {
		t.Fatal(err)
	}
	rule := &networking.DestinationRule{}
	text, err := yaml.YAMLToJSON(archive.Files[1].Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, rule); err != nil {
		t.Fatal(err)
	}
	return w, rule
}

func (w world) service() *mesh.Service {
	s := &mesh.Service{
		Key:        mesh.ServiceKey{Host: mesh.Host(w.Host), Namespace: "default"},
		Resolution: resolutions[w.Resolution],
		Identities: w.Identities,
	}
	for _, p := range w.Ports {
		protocol, _ := mesh.ParseProtocol(p.Protocol)
		s.Ports = append(s.Ports, mesh.Port{Name: p.Name, Number: p.Number, Protocol: protocol})
	}
	return s
}

func (w world) defaults() cluster.Defaults {
	d := cluster.Defaults{
		ConnectTimeout: durationpb.New(10e9),
		UpgradeHTTP2:   w.Defaults.Upgrade,
		StatName:       w.Defaults.StatName,
		DNSRefresh:     durationpb.New(60e9),
	}
	if w.Defaults.Pool {
		d.Pool = &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: 77}}
		d.Outlier = &networking.OutlierDetection{Interval: durationpb.New(9e9)}
	}
	return d
}

func render(t *testing.T, w world, rule *networking.DestinationRule) string {
	t.Helper()
	s := w.service()
	subsets := []string{""}
	for _, sub := range rule.Subsets {
		subsets = append(subsets, sub.Name)
	}
	var out strings.Builder
	for _, p := range s.Ports {
		for _, sub := range subsets {
			c, err := build(w, s, p, sub, rule, w.defaults())
			if err != nil {
				out.WriteString(
					"# " + mesh.ClusterKey{Port: p.Number, Subset: sub, Host: s.Key.Host}.String() + ": " + err.Error() + "\n---\n")
				continue
			}
			if err := c.ValidateAll(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			d := w.defaults()
			d.Pool, d.Outlier = nil, nil
			bare, err := build(w, s, p, sub, &networking.DestinationRule{}, d)
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, c)
			if proto.Size(rule) > 2+len(rule.Host) {
				got = differing(got, tree(t, bare))
			}
			out.WriteString(text(t, got) + "---\n")
		}
	}
	return out.String()
}

func build(
	w world,
	s *mesh.Service,
	p mesh.Port,
	subset string,
	rule *networking.DestinationRule,
	d cluster.Defaults,
) (*clusterv3.Cluster, error) {
	o := cluster.Outbound{
		Key:         mesh.ClusterKey{Port: p.Number, Subset: subset, Host: s.Key.Host},
		Service:     s,
		Port:        p,
		Policy:      cluster.Resolve(rule, subset, p.Number),
		Rule:        mesh.ObjectRef{Namespace: "default", Name: "rule"},
		Credentials: w.Gateway,
		Defaults:    d,
	}
	o.Discovery = cluster.Discover(s, o.Policy, w.Gateway)
	if o.Discovery.Inline() {
		load := endpoint.Load{Cluster: o.Key.String(), Port: p, Form: endpoint.Named}
		for _, e := range w.Endpoints {
			load.Endpoints = append(load.Endpoints, mesh.Endpoint{Address: e.Address})
		}
		o.Load = load.Build()
	}
	return o.Build()
}

// tree returns a message as plain values.
func tree(t *testing.T, m proto.Message) map[string]any {
	t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// differing returns the cluster's name and the fields that a rule changed; a field that the rule removed is null.
func differing(got, bare map[string]any) map[string]any {
	out := map[string]any{"name": got["name"]}
	for k, v := range got {
		if !cmp.Equal(v, bare[k]) {
			out[k] = v
		}
	}
	for k := range bare {
		if _, ok := got[k]; !ok {
			out[k] = nil
		}
	}
	return out
}

func text(t *testing.T, tree map[string]any) string {
	t.Helper()
	out, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
