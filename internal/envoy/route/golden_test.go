package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"fairway/internal/envoy"
	"fairway/internal/golden"
	"fairway/internal/mesh"
)

// TestGolden translates each testdata/*.txtar: rule.yaml (a VirtualService's spec) for viewer.yaml, into out.yaml.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		got, again := render(t, a), render(t, a)
		if !bytes.Equal(got, again) {
			t.Fatalf("two builds differ:\n%s\n%s", got, again)
		}
		a.Result(t, "out.yaml", string(got))
	})
}

type viewerFile struct {
	Namespace, Gateway string
	Labels             map[string]string
	Port               uint32
	Every              bool
	Dubbo              bool // the port speaks Dubbo
}

func render(t *testing.T, a *golden.Archive) []byte {
	t.Helper()
	v := viewerFile{Gateway: Mesh, Port: 80}
	rule := Rule{Namespace: "default", Name: "rule", Spec: &networking.VirtualService{}}
	for _, f := range a.Files {
		switch f.Name {
		case "viewer.yaml":
			check(t, yaml.Unmarshal(f.Data, &v))
		case "rule.yaml":
			body, err := yaml.YAMLToJSON(f.Data)
			check(t, err)
			check(t, json.Unmarshal(body, rule.Spec))
		}
	}
	out := map[string]any{}
	b := testBuilder(
		Viewer{Namespace: v.Namespace, Labels: mesh.MakeLabels(v.Labels), Gateways: []string{v.Gateway}, Port: v.Port, Every: v.Every})
	var problems []string
	b.Note = func(p mesh.Problem) { problems = append(problems, p.String()) }
	if v.Dubbo {
		put(out, "dubbo", dubboYAML(t, b.Dubbo(rule)))
	} else {
		put(out, "http", routesYAML(t, b.HTTP(rule)))
	}
	put(out, "tcp", chainsYAML(b.TCP(rule)))
	put(out, "tls", chainsYAML(b.TLS(rule)))
	slices.Sort(problems)
	if problems = slices.Compact(problems); len(problems) > 0 {
		out["problems"] = problems
	}
	body, err := yaml.Marshal(out)
	check(t, err)
	return body
}

// testBuilder resolves names below default.svc.cluster.local; a destination's port is the one it names, or the viewer's.
func testBuilder(v Viewer) *Builder {
	return &Builder{Viewer: v, Target: func(rule Rule, _ string, d *networking.Destination) Target {
		host, port := d.GetHost(), d.GetPort().GetNumber()
		if !strings.Contains(host, ".") {
			host += "." + rule.Namespace + ".svc.cluster.local"
		}
		if port == 0 {
			port = v.Port
		}
		return Target{Cluster: mesh.ClusterKey{Host: mesh.Host(host), Port: port, Subset: d.GetSubset()}}
	}}
}

func put(out map[string]any, name string, list []any) {
	if len(list) > 0 {
		out[name] = list
	}
}

func chainsYAML(chains []Chain) (out []any) {
	for _, c := range chains {
		var to []string
		for _, w := range c.Clusters {
			to = append(to, fmt.Sprintf("%s %d", w.Cluster, w.Weight))
		}
		m := map[string]any{"field": c.Field, "to": to}
		if len(c.SNI) > 0 {
			m["sni"] = c.SNI
		}
		if len(c.Subnets) > 0 {
			m["subnets"] = c.Subnets
		}
		out = append(out, m)
	}
	return out
}

// routesYAML writes routes without what every one of them has.
func routesYAML(t *testing.T, routes []*routev3.Route) (out []any) {
	for _, r := range routes {
		if e := envoy.Encode(r); e.Err != nil {
			t.Errorf("Envoy would refuse: %v\n%v", e.Err, r)
		}
		r = proto.Clone(r).(*routev3.Route)
		if a := r.GetRoute(); a != nil {
			if proto.Equal(a.RetryPolicy, DefaultRetry(nil)) {
				a.RetryPolicy = nil
			} else if a.RetryPolicy == nil {
				a.RetryPolicy = &routev3.RetryPolicy{}
			}
			if a.Timeout.AsDuration() == 0 {
				a.Timeout, a.MaxStreamDuration, a.MaxGrpcTimeout = nil, nil, nil //nolint:staticcheck // Envoy's own default
			}
		}
		out = append(out, toAny(t, r))
	}
	return out
}

func dubboYAML(t *testing.T, routes []DubboRoute) (out []any) {
	for _, r := range routes {
		m := map[string]any{}
		if r.Interface != "" {
			m["interface"] = r.Interface
		}
		if r.Method != nil {
			m["method"] = toAny(t, r.Method)
		}
		var headers []any
		for _, h := range r.Headers {
			headers = append(headers, toAny(t, h))
		}
		put(m, "headers", headers)
		var to []string
		for _, w := range r.Clusters {
			to = append(to, fmt.Sprintf("%s %d", w.Cluster, w.Weight))
		}
		m["to"] = to
		out = append(out, m)
	}
	return out
}

func toAny(t *testing.T, m proto.Message) any {
	t.Helper()
	body, err := protojson.Marshal(m)
	check(t, err)
	var v any
	check(t, json.Unmarshal(body, &v))
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
