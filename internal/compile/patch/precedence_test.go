package patch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// waits are entries of configPatches that set how long connecting may take, in seconds: the one that is applied last is seen.
func waits(seconds ...int) string {
	var all []string
	for _, n := range seconds {
		all = append(all, fmt.Sprintf(`{applyTo: CLUSTER, match: {cluster: {name: "outbound|80||a.shop"}}, `+
			`patch: {operation: MERGE, value: {connect_timeout: %ds}}}`, n))
	}
	return "configPatches: [" + strings.Join(all, ", ") + "]}\n"
}

// TestPrecedence: the order in which the patches of several EnvoyFilters are applied to a cluster. They are for shop's proxies, for web by
// labels, and for a gateway.
func TestPrecedence(t *testing.T) {
	const added = `configPatches: [{applyTo: CLUSTER, patch: {operation: ADD, value: {name: added, connect_timeout: 3s}}}]}` + "\n"
	compiletest.Precedence(t, `
ServiceEntry shop/a {hosts: [a.shop], resolution: STATIC, endpoints: [{address: 10.0.0.1}], ports: [{number: 80, name: http, protocol: HTTP}]}
Gateway shop/edge {selector: {gateway.networking.k8s.io/gateway-name: edge}, servers: [
  {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`, []mesh.Proxy{
		compiletest.Proxy("sidecar web.shop 10.9.0.1 app=web"),
		compiletest.Proxy("sidecar any.shop 10.9.0.2 app=any"),
		compiletest.Proxy("router edge.shop 10.9.0.3 " +
			"gateway.networking.k8s.io/gateway-class-name=class,gateway.networking.k8s.io/gateway-name=edge"),
	}, []compiletest.Row{
		{
			Name:  "within one the later entry",
			Cite:  "envoy_filter.proto EnvoyFilter.priority: Patches within a patch set are processed in the order that they appear",
			Rules: "EnvoyFilter shop/a {" + waits(1, 2),
			Want:  "any 2, web 2",
		},
		{
			Name:  "the younger after the older, whatever their names",
			Cite:  "envoy_filter.proto: all patches will be processed sequentially in order of creation time",
			Rules: "EnvoyFilter shop/z {" + waits(1) + "EnvoyFilter shop/a {" + waits(2),
			Want:  "any 2, web 2",
		},
		{
			Name:  "the greater priority after the lesser, whatever their age",
			Cite:  "envoy_filter.proto EnvoyFilter.priority: A patch set with a positive priority is processed after the default",
			Rules: "EnvoyFilter shop/a {priority: 10, " + waits(1) + "EnvoyFilter shop/z {" + waits(2),
			Want:  "any 1, web 1",
		},
		{
			Name:  "a negative priority before the default",
			Cite:  "envoy_filter.proto EnvoyFilter.priority: A patch set with a negative priority is processed before the default",
			Rules: "EnvoyFilter shop/a {" + waits(1) + "EnvoyFilter shop/z {priority: -1, " + waits(2),
			Want:  "any 1, web 1",
		},
		{
			Name:  "of one age by name",
			Cite:  "envoy_filter.proto EnvoyFilter.priority: priority, creation time, fully qualified resource name",
			Rules: "EnvoyFilter shop/b@1 {" + waits(1) + "EnvoyFilter shop/a@1 {" + waits(2),
			Want:  "any 1, web 1",
		},
		{
			Name:  "the root namespace's before the namespace's, whatever their age",
			Cite:  "envoy_filter.proto: followed by all matching EnvoyFilters in the workload's namespace",
			Rules: "EnvoyFilter shop/a {" + waits(1) + "EnvoyFilter istio-system/z {" + waits(2),
			Want:  "any 1, web 1",
		},
		{
			Name:  "the greater priority after the lesser, whatever their namespaces",
			Cite:  "envoy_filter.proto EnvoyFilter.priority: A patch set with a negative priority is processed before the default",
			Rules: "EnvoyFilter istio-system/a {priority: 100, " + waits(1) + "EnvoyFilter shop/a {priority: -100, " + waits(2),
			Want:  "any 1, web 1",
		},
		{
			Name:  "of one priority the root namespace's before the namespace's",
			Cite:  "envoy_filter.proto EnvoyFilter.priority: in the root namespace are applied before the patch sets in",
			Rules: "EnvoyFilter shop/a@1 {priority: 100, " + waits(1) + "EnvoyFilter istio-system/z@2 {priority: 100, " + waits(2),
			Want:  "any 1, web 1",
		},
		{
			Name: "one with a selector is for those that it picks, in the order of age with the others",
			Cite: "envoy_filter.proto EnvoyFilter.workload_selector: If omitted, the set of patches in this configuration will be",
			Rules: "EnvoyFilter shop/web {workloadSelector: {labels: {app: web}}, " + waits(1) + "EnvoyFilter shop/all {" + waits(2) +
				"EnvoyFilter shop/more {workloadSelector: {labels: {app: any}}, " + waits(3),
			Want: "any 3, web 2",
		},
		{
			Name: "the root namespace's selector picks in every namespace",
			Cite: "envoy_filter.proto EnvoyFilter.workload_selector: it will be applied to all applicable workloads in any namespace",
			Rules: "EnvoyFilter istio-system/web {workloadSelector: {labels: {app: web}}, " + waits(1) +
				"EnvoyFilter bank/web {workloadSelector: {labels: {app: web}}, " + waits(2),
			Want: "any 10, web 1",
		},
		{
			Name: "targetRefs to a Gateway, in its namespace alone",
			Cite: "envoy_filter.proto EnvoyFilter.targetRefs: `group: gateway.networking.k8s.io` in the same namespace",
			Rules: "EnvoyFilter shop/edge {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], " + added +
				"EnvoyFilter bank/edge {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}], " +
				strings.ReplaceAll(added, "3s", "4s"),
			Want: "any 10, edge added 3, web 10",
		},
		{
			Name: "targetRefs to a GatewayClass, in the root namespace alone",
			Cite: "envoy_filter.proto EnvoyFilter.targetRefs: `group: gateway.networking.k8s.io` in the root namespace",
			Rules: "EnvoyFilter istio-system/class {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: class}], " +
				added +
				"EnvoyFilter shop/class {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: class}], " +
				strings.ReplaceAll(strings.ReplaceAll(added, "3s", "4s"), "added", "more"),
			Want: "any 10, edge added 3, web 10",
		},
	}, connecting)
}

// connecting is how many seconds the clusters that are patched may take to connect, and those that are added.
func connecting(w *compiletest.World) string {
	var out []string
	for id, all := range w.ByProxy(xdstype.Clusters) {
		name := strings.Split(strings.Split(string(id), "~")[1], ".")[0]
		for _, of := range []string{"outbound|80||a.shop", "added", "more"} {
			var c clusterv3.Cluster
			if e := all[of]; e == nil || proto.Unmarshal(e.Body, &c) != nil {
				continue
			}
			what := name
			if !strings.HasPrefix(of, "outbound") {
				what += " " + of
			}
			out = append(out, fmt.Sprint(what, " ", c.GetConnectTimeout().GetSeconds()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
