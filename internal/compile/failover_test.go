package compile_test

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
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

// orderSeen returns the order in which a proxy uses the endpoints of a cluster: "10.0.0.1 | 10.0.0.2 10.0.0.3".
func orderSeen(t *testing.T, w *compiletest.World, id mesh.ProxyID, cluster string) string {
	t.Helper()
	seen := w.ByProxy(xdstype.Loads)[id][cluster]
	if seen == nil {
		return ""
	}
	load := &endpointv3.ClusterLoadAssignment{}
	if err := proto.Unmarshal(seen.Body, load); err != nil {
		t.Fatal(err)
	}
	var steps [4]string
	for _, l := range load.Endpoints {
		for _, end := range l.LbEndpoints {
			steps[l.Priority] += " " + end.GetEndpoint().Address.GetSocketAddress().GetAddress()
		}
	}
	return strings.TrimSpace(strings.TrimRight(strings.Join(steps[:], " |"), " |"))
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
	expect("the mesh says where to", "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.2 | 10.0.0.1 | 10.0.0.3",
		"10.0.0.3 | 10.0.0.1 10.0.0.2", alike)
	w.Apply("kind: MeshConfig\nspec: {localityLbSetting: {enabled: false}}\n")
	expect("the mesh is against it", alike, alike, alike, alike)
	w.Delete("DestinationRule", "shop", "one")
	w.Delete("DestinationRule", "bank", "one")
	w.Apply("kind: MeshConfig\nspec: {defaultTrafficPolicy: {outlierDetection: {}}}\n")
	expect("the mesh detects", "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.2 | 10.0.0.1 | 10.0.0.3", "10.0.0.3 | 10.0.0.1 10.0.0.2", alike)
}

// TestLocalitiesThatNothingHas: a locality that a proxy claims counts only as far as an endpoint, a WorkloadEntry, a WorkloadGroup or a
// machine of the mesh has it. The rest makes no variant, and is a problem if nothing is in the region.
func TestLocalitiesThatNothingHas(t *testing.T) {
	w := compiletest.New(t)
	here, near, made := placed("here", "shop", "r/a"), placed("near", "shop", "r/made/up"), placed("made", "shop", "m/ade/up")
	w.Connect(here, near, made)
	const alike, cluster = "10.0.0.1 10.0.0.2 10.0.0.3", "outbound|80||one.example.com"
	expect := func(when string, odd bool, want ...string) {
		t.Helper()
		w.Settle()
		for i, p := range []mesh.Proxy{here, near, made} {
			if got := orderSeen(t, w, p.ID, cluster); got != want[i] {
				t.Errorf("%s: %s at %q uses %s, want %s", when, p.Name, p.Locality, got, want[i])
			}
		}
		if got := strings.Contains(w.ProblemText(), "its proxies report localities"); got != odd {
			t.Errorf("%s: a problem tells so: %t\n%s", when, got, w.ProblemText())
		}
	}
	expect("nothing has a locality", false, "", "", "")
	w.Apply(fmt.Sprintf(placedService, "one") + "---\n" + fmt.Sprintf(placedRule, "one", "shop", `"*"`, "outlierDetection: {consecutive5xxErrors: 1}"))
	expect("endpoints have some", true, "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.1 10.0.0.2 | 10.0.0.3", alike)
	const failsOver = "10.0.0.3 | 10.0.0.1 10.0.0.2"
	w.Apply("kind: MeshConfig\nspec: {localityLbSetting: {failover: [{from: m, to: s}]}}\n")
	expect("the mesh names the region", false, "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.1 10.0.0.2 | 10.0.0.3", failsOver)
	w.Delete("MeshConfig", "", "")
	expect("the mesh names none", true, "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.1 10.0.0.2 | 10.0.0.3", alike)
	for kind, spec := range map[string]string{
		"WorkloadEntry": "{address: 10.0.0.9, locality: m/other}", "WorkloadGroup": "{template: {locality: m}}",
		"ServiceEntry": "{hosts: [two.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, " +
			"endpoints: [{address: 10.0.0.8, locality: m/ade/up}]}",
	} {
		w.Apply(fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: two, namespace: shop}\nspec: %s\n", kind, spec))
		expect("a "+kind+" has it", false, "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.1 10.0.0.2 | 10.0.0.3", alike)
		w.Delete(kind, "shop", "two")
		expect("the "+kind+" has gone", true, "10.0.0.1 | 10.0.0.2 | 10.0.0.3", "10.0.0.1 10.0.0.2 | 10.0.0.3", alike)
	}
}

// TestSharesByLocality: proxies give localities the shares of the first line for their own locality, in every layer. If no line is for it,
// or no locality is known, all endpoints are used alike.
func TestSharesByLocality(t *testing.T) {
	w := compiletest.New(t)
	a, far, nowhere := placed("a", "shop", "r/a"), placed("far", "bank", "s/b"), placed("no", "shop", "")
	w.Connect(a, far, nowhere)
	w.Apply(fmt.Sprintf(placedService, "one"))
	const cluster = "outbound|80||one.example.com"
	const alike = "r/a=1 r/b=1 s/a=1 weighted=false"
	expect := func(when string, want ...string) {
		t.Helper()
		w.Settle()
		for i, p := range []mesh.Proxy{a, far, nowhere} {
			if got := sharesSeen(t, w, p.ID, cluster); got != want[i] {
				t.Errorf("%s: %s at %q uses %s, want %s", when, p.Name, p.Locality, got, want[i])
			}
		}
	}
	expect("nobody says anything", alike, alike, alike)
	const shares = `{from: "r/a/*", to: {"r/a/*": 80, "r/*": 20}}, {from: "s/*", to: {"s/*": 60, "r/*": 40}}`
	const weighted = "r/a=1 r/b=1 s/a=1 weighted=true"
	w.Apply(fmt.Sprintf(placedRule, "one", "shop", `"*"`, "loadBalancer: {localityLbSetting: {distribute: ["+shares+"]}}"))
	expect("a rule", "r/a=800000 r/b=200000 weighted=true", "r/a=200000 r/b=200000 s/a=600000 weighted=true", weighted)
	w.Apply(fmt.Sprintf(placedRule, "one", "shop", `"*"`,
		"outlierDetection: {}, loadBalancer: {localityLbSetting: {distribute: ["+`{from: "s/b/*", to: {"r/b/*": 100}}`+"]}}"))
	expect("not for all, and failing ones are detected", weighted, "r/b=1000000 weighted=true", weighted)
	w.Apply(fmt.Sprintf(placedRule, "one", "shop", `"*"`, "loadBalancer: {simple: RANDOM}"))
	w.Apply("kind: MeshConfig\nspec: {localityLbSetting: {distribute: [" + shares + "]}}\n")
	expect("the mesh", "r/a=800000 r/b=200000 weighted=true", "r/a=200000 r/b=200000 s/a=600000 weighted=true", weighted)
	w.Apply(fmt.Sprintf(placedRule, "one", "shop", `"*"`, "loadBalancer: {localityLbSetting: {enabled: false}}"))
	expect("a rule against it", alike, alike, alike)
}

// sharesSeen is what the localities of a cluster weigh for a proxy, and whether its Envoy goes by that.
func sharesSeen(t *testing.T, w *compiletest.World, id mesh.ProxyID, cluster string) (out string) {
	t.Helper()
	load, c := &endpointv3.ClusterLoadAssignment{}, &clusterv3.Cluster{}
	for _, of := range []struct {
		typ  xdstype.Type
		into proto.Message
	}{{xdstype.Loads, load}, {xdstype.Clusters, c}} {
		seen := w.ByProxy(of.typ)[id][cluster]
		if seen == nil {
			t.Fatalf("%s does not see %s", id, cluster)
		}
		if err := proto.Unmarshal(seen.Body, of.into); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range load.Endpoints {
		out += fmt.Sprintf("%s/%s=%d ", l.Locality.GetRegion(), l.Locality.GetZone(), l.LoadBalancingWeight.GetValue())
	}
	return out + fmt.Sprintf("weighted=%t", c.CommonLbConfig.GetLocalityWeightedLbConfig() != nil)
}

// TestMeshLocalitiesAreInForce: every part of the mesh's locality setting has an effect, so no problem says that a part does nothing.
func TestMeshLocalitiesAreInForce(t *testing.T) {
	w := compiletest.New(t)
	for _, setting := range []string{
		`distribute: [{from: "r/*", to: {"r/*": 100}}]`, "failoverPriority: [version]", "failover: [{from: s, to: r}]",
	} {
		w.Apply("kind: MeshConfig\nspec: {defaultProviders: {}, localityLbSetting: {" + setting + "}}\n")
		w.Settle()
		if got := w.ProblemText(); got != "" {
			t.Errorf("of %s is told %q", setting, got)
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
	for k := range w.Published(xdstype.Loads) {
		if k.Shelf.Part != "" {
			near++
		}
	}
	if near != 10 {
		t.Errorf("%d assignments stand on shelves of a locality, want those of the 10 services that fail over", near)
	}
	w.Connect(placed("b", "shop", "r/b"))
	if turn := w.Settle(); turn.Recomputed > 120 {
		t.Errorf("the first proxy of one more locality recomputes %d rows, want some for each of the 10 services that fail over",
			turn.Recomputed)
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
