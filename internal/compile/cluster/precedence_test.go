package cluster_test

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

// TestPrecedence: which of several DestinationRules limits the connections to bank's service. The clients are one that a selector may pick,
// another of its namespace, and one of the service's namespace. Limits are by port, and by subset if there is one.
func TestPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
ServiceEntry bank/a {hosts: [a.bank.example], resolution: STATIC, endpoints: [{address: 10.0.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: more, protocol: HTTP}]}
`, []mesh.Proxy{
		compiletest.Proxy("sidecar web.shop 10.9.0.1 app=web"),
		compiletest.Proxy("sidecar any.shop 10.9.0.2 app=any"),
		compiletest.Proxy("sidecar own.bank 10.9.0.3 app=web"),
	}, []compiletest.Row{
		{
			Name: "there is none",
			Cite: "destination_rule.proto TCPSettings.max_connections: connections to a destination host. Default 2^32-1",
			Want: "any: 80 - 81 -\nown: 80 - 81 -\nweb: 80 - 81 -",
		},
		{
			Name:  "the service's namespace's holds for all clients",
			Cite:  "destination_rule.proto DestinationRule.export_to: then the destination rule is exported to all namespaces by default",
			Rules: `DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}`,
			Want:  "any: 80 1 81 1\nown: 80 1 81 1\nweb: 80 1 81 1",
		},
		{
			Name: "the client's namespace's goes before the service's",
			Cite: "destination_rule.proto DestinationRule.export_to: occurs in the context of a hierarchy of namespaces",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule shop/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}`,
			Want: "any: 80 2 81 2\nown: 80 1 81 1\nweb: 80 2 81 2",
		},
		{
			Name: "the root namespace's goes last",
			Cite: "config.proto MeshConfig.root_namespace: if none are found it will search in the root namespace",
			Rules: `
DestinationRule istio-system/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}
DestinationRule shop/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}`,
			Want: "any: 80 2 81 2\nown: 80 3 81 3\nweb: 80 2 81 2",
		},
		{
			Name:  "a third namespace's is nobody's but its own",
			Cite:  "beyond the API reference: docs/ops/best-practices/traffic-management: looked up are client, service, root namespace",
			Rules: `DestinationRule mall/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 4}}}}`,
			Want:  "any: 80 - 81 -\nown: 80 - 81 -\nweb: 80 - 81 -",
		},
		{
			Name: "one that is exported to its own namespace alone leaves others to the root namespace's",
			Cite: `destination_rule.proto DestinationRule.export_to: The value "." is reserved and defines an export to the same namespace`,
			Rules: `
DestinationRule bank/a {host: a.bank.example, exportTo: ["."], trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule istio-system/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}`,
			Want: "any: 80 3 81 3\nown: 80 1 81 1\nweb: 80 3 81 3",
		},
		{
			Name: "the mesh says to whom those are exported that do not say so",
			Cite: "config.proto MeshConfig.default_destination_rule_export_to: The default value for the `DestinationRule.exportTo` field",
			Rules: `MeshConfig -/- {defaultDestinationRuleExportTo: ["."]}
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}`,
			Want: "any: 80 - 81 -\nown: 80 1 81 1\nweb: 80 - 81 -",
		},
		{
			Name: "within a namespace the more specific host goes first",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/config.go: the exact host, else the longest wildcard",
			Rules: `
DestinationRule bank/wide {host: "*.bank.example", trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}`,
			Want: "any: 80 2 81 2\nown: 80 2 81 2\nweb: 80 2 81 2",
		},
		{
			Name: "the nearer namespace goes before the more specific host",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: a namespace at a time, wildcards too",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule shop/wide {host: "*.example", trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}`,
			Want: "any: 80 2 81 2\nown: 80 1 81 1\nweb: 80 2 81 2",
		},
		{
			Name: "a subset's setting goes before the rule's, which it has where it has none",
			Cite: "destination_rule.proto Subset.traffic_policy: at the subset level will override the corresponding settings",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}, subsets: [{name: v1},
  {name: v2, trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}]}`,
			Want: "any: 80 1 80|v1 1 80|v2 2 81 1 81|v1 1 81|v2 2\nown: 80 1 80|v1 1 80|v2 2 81 1 81|v1 1 81|v2 2\n" +
				"web: 80 1 80|v1 1 80|v2 2 81 1 81|v1 1 81|v2 2",
		},
		{
			Name: "a port's settings go before the rule's",
			Cite: "destination_rule.proto TrafficPolicy.port_level_settings: will override the destination-level settings",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}},
  portLevelSettings: [{port: {number: 81}, connectionPool: {tcp: {maxConnections: 2}}}]}}`,
			Want: "any: 80 1 81 2\nown: 80 1 81 2\nweb: 80 1 81 2",
		},
		{
			Name: "what a port's settings leave out is not the rule's",
			Cite: "destination_rule.proto TrafficPolicy.port_level_settings: default values will be applied to fields omitted",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}},
  portLevelSettings: [{port: {number: 81}, loadBalancer: {simple: ROUND_ROBIN}}]}}`,
			Want: "any: 80 1 81 -\nown: 80 1 81 -\nweb: 80 1 81 -",
		},
		{
			Name: "several for one host in a namespace: the oldest's policy, everybody's subsets",
			Cite: "beyond the API reference: docs/ops/best-practices/traffic-management, Split: the first top-level trafficPolicy is used",
			Rules: `
DestinationRule bank/z {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}, subsets: [{name: v1}]}`,
			Want: "any: 80 1 80|v1 1 81 1 81|v1 1\nown: 80 1 80|v1 1 81 1 81|v1 1\nweb: 80 1 80|v1 1 81 1 81|v1 1",
		},
		{
			Name: "several for one host: of two subsets with one name the oldest's",
			Cite: "beyond the API reference: docs/ops/best-practices/traffic-management, Split: of a subset the first definition is used",
			Rules: `
DestinationRule bank/z {host: a.bank.example, subsets: [{name: v1, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}]}
DestinationRule bank/a {host: a.bank.example, subsets: [{name: v1, trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}]}`,
			Want: "any: 80 - 80|v1 1 81 - 81|v1 1\nown: 80 - 80|v1 1 81 - 81|v1 1\nweb: 80 - 80|v1 1 81 - 81|v1 1",
		},
		{
			Name: "one with a selector goes before one for all, for the clients of its namespace that it picks",
			Cite: "destination_rule.proto DestinationRule.workload_selector: only to the workload instances matching the workload selector",
			Rules: `
DestinationRule shop/all {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule shop/web {host: a.bank.example, workloadSelector: {matchLabels: {app: web}},
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}`,
			Want: "any: 80 1 81 1\nown: 80 - 81 -\nweb: 80 2 81 2",
		},
		{
			Name: "a selector picks nobody of another namespace",
			Cite: "destination_rule.proto DestinationRule.workload_selector: Workload selectors do not apply across namespace boundaries",
			Rules: `
DestinationRule bank/web {host: a.bank.example, workloadSelector: {matchLabels: {app: web}},
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}
DestinationRule istio-system/web {host: a.bank.example, workloadSelector: {matchLabels: {app: web}},
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}`,
			Want: "any: 80 - 81 -\nown: 80 2 81 2\nweb: 80 - 81 -",
		},
	}, bounds)
}

// TestRootsPrecedence is TestPrecedence for two clients: one of the root namespace, which has the rules of the whole mesh, and one of
// another.
func TestRootsPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
ServiceEntry bank/a {hosts: [a.bank.example], resolution: STATIC, endpoints: [{address: 10.0.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP}]}
`, []mesh.Proxy{
		compiletest.Proxy("sidecar root.istio-system 10.9.0.1 app=web"),
		compiletest.Proxy("sidecar web.shop 10.9.0.2 app=web"),
	}, []compiletest.Row{
		{
			Name: "the root namespace's go last for its own clients, too",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: the service's namespace first, for such clients",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule istio-system/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}`,
			Want: "root: 80 1\nweb: 80 1",
		},
		{
			Name: "but those that are for nobody else go first",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: exportTo \".\" is meant for such clients",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule istio-system/wide {host: "*.bank.example", exportTo: ["."], trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}
DestinationRule istio-system/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}`,
			Want: "root: 80 2\nweb: 80 1",
		},
		{
			Name: "as those are that say so by name",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: or the rule's own namespace",
			Rules: `
DestinationRule bank/a {host: a.bank.example, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
DestinationRule istio-system/a {host: a.bank.example, exportTo: [istio-system],
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 2}}}}`,
			Want: "root: 80 2\nweb: 80 1",
		},
	}, bounds)
}

// bounds are the most connections of each proxy's clusters; "-" for no bound.
func bounds(w *compiletest.World) string {
	var lines []string
	for id, all := range w.ByProxy(xdstype.Clusters) {
		var clusters []string
		for name, e := range all {
			var c clusterv3.Cluster
			parts := strings.Split(name, "|")
			if parts[0] != "outbound" || proto.Unmarshal(e.Body, &c) != nil {
				continue
			}
			bound := "-"
			for _, t := range c.GetCircuitBreakers().GetThresholds() {
				if n := t.GetMaxConnections(); n != nil && n.Value < 100 {
					bound = fmt.Sprint(n.Value)
				}
			}
			clusters = append(clusters, strings.TrimSuffix(parts[1]+"|"+parts[2], "|")+" "+bound)
		}
		slices.Sort(clusters)
		name, _, _ := strings.Cut(strings.Split(string(id), "~")[1], ".")
		lines = append(lines, name+": "+strings.Join(clusters, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
