package compile_test

import (
	"fmt"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// placedService is a service of three places; placedRule a rule for it.
const (
	placedService = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - {address: 10.0.0.1, locality: r/a}
  - {address: 10.0.0.2, locality: r/b}
  - {address: 10.0.0.3, locality: s/a}
`
	placedRule = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  host: %[1]s.example.com
  exportTo: [%[3]s]
  trafficPolicy: {%[4]s}
`
)

// placed is a sidecar at a locality.
func placed(name, namespace, locality string) mesh.Proxy {
	p := compiletest.Sidecar(name, namespace, "10.1.0.1")
	p.Locality = mesh.ParseLocality(locality)
	return p
}

// orderSeen is in which order a proxy uses the endpoints of a cluster: "10.0.0.1 | 10.0.0.2 10.0.0.3".
func orderSeen(t *testing.T, w *compiletest.World, id mesh.ProxyID, cluster string) (out string) {
	t.Helper()
	w.Store.Read(func(tx *table.Tx) {
		stack, _ := table.Lookup(tx, w.Out.Attachments, id)
		for _, shelf := range stack[xdstype.Loads] {
			for _, published := range w.Out.Resources[xdstype.Loads] {
				e, ok := table.Lookup(tx, published, mesh.ResourceKey{Shelf: shelf, Name: cluster})
				if !ok {
					continue
				}
				load := &endpointv3.ClusterLoadAssignment{}
				if err := proto.Unmarshal(e.Body, load); err != nil {
					t.Fatal(err)
				}
				steps := make([][]string, 4)
				for _, l := range load.Endpoints {
					for _, end := range l.LbEndpoints {
						steps[l.Priority] = append(steps[l.Priority], end.GetEndpoint().Address.GetSocketAddress().GetAddress())
					}
				}
				out = ""
				for i, s := range steps {
					if i > 0 && len(s) > 0 {
						out += " | "
					}
					out += strings.Join(s, " ")
				}
			}
		}
	})
	return out
}

// TestFailoverByLocality: proxies use the nearest endpoints first where failing ones are detected, whatever layer says so,
// and share all assignments that do not differ.
func TestFailoverByLocality(t *testing.T) {
	w := compiletest.New(t)
	a, b, far, nowhere := placed("a", "shop", "r/a"), placed("b", "shop", "r/b/1"), placed("far", "bank", "s/b"), placed("no", "shop", "")
	w.Connect(a, b, far, nowhere)
	w.Apply(fmt.Sprintf(placedService, "one"))
	const alike, cluster = "10.0.0.1 10.0.0.2 10.0.0.3", "outbound|80||one.example.com"
	expect := func(when string, want ...string) {
		t.Helper()
		w.Settle()
		for i, p := range []mesh.Proxy{a, b, far, nowhere} {
			if got := orderSeen(t, w, p.ID, cluster); got != want[i] {
				t.Errorf("%s: %s at %q uses %s, want %s", when, p.Name, p.Locality, got, want[i])
			}
		}
	}
	rule := func(namespace, export, policy string) {
		w.Apply(fmt.Sprintf(placedRule, "one", namespace, export, policy))
	}
	const outlier = "outlierDetection: {consecutive5xxErrors: 1}"
	expect("nothing is detected", alike, alike, alike, alike)
	rule("shop", `"*"`, outlier)
	expect("for all", "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.2 | 10.0.0.1 | 10.0.0.3", "10.0.0.3 | 10.0.0.1 10.0.0.2", alike)
	rule("shop", `"."`, outlier)
	expect("in its namespace alone", "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.2 | 10.0.0.1 | 10.0.0.3", alike, alike)
	rule("shop", `"*"`, outlier)
	rule("bank", `"."`, outlier+", loadBalancer: {localityLbSetting: {enabled: false}}")
	expect("not in one namespace", "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.2 | 10.0.0.1 | 10.0.0.3", alike, alike)
	rule("bank", `"."`, outlier)
	w.Apply("kind: MeshConfig\nspec: {localityLbSetting: {failover: [{from: s, to: r}]}}\n")
	expect(
		"the mesh says where to",
		"10.0.0.1 | 10.0.0.2 | 10.0.0.3",
		"10.0.0.2 | 10.0.0.1 | 10.0.0.3",
		"10.0.0.3 | 10.0.0.1 10.0.0.2",
		alike,
	)
	w.Apply("kind: MeshConfig\nspec: {localityLbSetting: {enabled: false}}\n")
	expect("the mesh is against it", alike, alike, alike, alike)
	w.Delete("DestinationRule", "shop", "one")
	w.Delete("DestinationRule", "bank", "one")
	w.Apply("kind: MeshConfig\nspec: {defaultTrafficPolicy: {outlierDetection: {}}}\n")
	expect("the mesh detects", "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.2 | 10.0.0.1 | 10.0.0.3", "10.0.0.3 | 10.0.0.1 10.0.0.2", alike)
}

// TestWhatIsNotYetOfLocalities: a part of a mesh's setting that does nothing is told, what is in force is not.
func TestWhatIsNotYetOfLocalities(t *testing.T) {
	w := compiletest.New(t)
	for setting, told := range map[string]string{
		`distribute: [{from: "r/*", to: {"r/*": 100}}]`: "localityLbSetting.distribute",
		"failoverPriority: [version]":                   "localityLbSetting.failoverPriority",
		"failover: [{from: s, to: r}]":                  "",
	} {
		w.Apply("kind: MeshConfig\nspec: {defaultProviders: {}, localityLbSetting: {" + setting + "}}\n")
		w.Settle()
		if got := w.ProblemText(); told == "" && got != "" || !strings.Contains(got, told) {
			t.Errorf("of %s is told %q, want %s", setting, got, told)
		}
	}
}

// TestFailoverCosts: a locality costs what differs there, and an endpoint that changes costs its own service's.
func TestFailoverCosts(t *testing.T) {
	const services = 200
	w := compiletest.Large(t)
	var text strings.Builder
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		fmt.Fprintf(&text, placedService+"---\n", name)
		if i < 10 {
			fmt.Fprintf(&text, placedRule+"---\n", name, "shop", `"*"`, "outlierDetection: {}")
		}
	}
	w.Apply(text.String())
	w.Connect(placed("a", "shop", "r/a"))
	w.Settle()
	near := 0
	w.Store.Read(func(tx *table.Tx) {
		for _, published := range w.Out.Resources[xdstype.Loads] {
			for k := range table.All(tx, published) {
				if k.Shelf.Part != "" {
					near++
				}
			}
		}
	})
	if near != 10 {
		t.Errorf("%d assignments stand on shelves of a locality, want those of the 10 services that fail over", near)
	}
	w.Connect(placed("b", "shop", "r/b"))
	if turn := w.Settle(); turn.Recomputed > 120 {
		t.Errorf(
			"the first proxy of one more locality recomputes %d rows, want some for each of the 10 services that fail over",
			turn.Recomputed,
		)
	}
	w.Connect(placed("c", "shop", "r/b"))
	if turn := w.Settle(); turn.Recomputed > 20 {
		t.Errorf("the second proxy of a locality recomputes %d rows, want its own alone", turn.Recomputed)
	}
	w.Apply(strings.Replace(fmt.Sprintf(placedService, "s3"), "10.0.0.3", "10.0.0.4", 1))
	if turn := w.Settle(); turn.Recomputed > 30 {
		t.Errorf("one changed service recomputes %d rows", turn.Recomputed)
	}
}
