package sidecar_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// TestPrecedence: the Sidecar that decides what shop's workload sees (the hosts of its port 80), and how many connections it accepts.
func TestPrecedence(t *testing.T) {
	compiletest.Precedence(t, `
ServiceEntry shop/web {hosts: [web.shop], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.9.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]}
ServiceEntry bank/b {hosts: [b.bank], resolution: STATIC, endpoints: [{address: 10.0.0.1}], ports: [{number: 80, name: http, protocol: HTTP}]}
ServiceEntry mall/c {hosts: [c.mall], resolution: STATIC, endpoints: [{address: 10.0.0.2}], ports: [{number: 80, name: http, protocol: HTTP}]}
`, []mesh.Proxy{compiletest.Proxy("sidecar web.shop 10.9.0.1 app=web,tier=front")}, []compiletest.Row{
		{
			Name: "there is none",
			Cite: "sidecar.proto: necessary configuration required to reach every workload instance in the mesh",
			Want: "b.bank c.mall web.shop",
		},
		{
			Name:  "the root namespace's holds for a namespace without one",
			Cite:  "sidecar.proto: will be applied by default to all namespaces without a `Sidecar` configuration",
			Rules: `Sidecar istio-system/default {egress: [{hosts: ["bank/*"]}]}`,
			Want:  "b.bank",
		},
		{
			Name: "the namespace's goes before the root namespace's",
			Cite: "sidecar.proto: overrides the global default defined above",
			Rules: `
Sidecar istio-system/default {egress: [{hosts: ["bank/*"]}]}
Sidecar shop/default {egress: [{hosts: ["mall/*"]}]}`,
			Want: "c.mall",
		},
		{
			Name: "one that selects the workload goes before the namespace's",
			Cite: "sidecar.proto: preference will be given to the resource with a `workloadSelector` that selects this workload instance",
			Rules: `
Sidecar shop/default {egress: [{hosts: ["mall/*"]}]}
Sidecar shop/web {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["bank/*"]}]}`,
			Want: "b.bank",
		},
		{
			Name: "one that selects the workload goes before the root namespace's",
			Cite: "sidecar.proto: preference will be given to the resource with a `workloadSelector` that selects this workload instance",
			Rules: `
Sidecar shop/web {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["./*"]}]}
Sidecar istio-system/default {egress: [{hosts: ["mall/*"]}]}`,
			Want: "web.shop",
		},
		{
			Name: "one that selects others leaves the namespace's in force",
			Cite: "sidecar.proto: In the absence of a `workloadSelector`, it will apply to all workload instances in the same namespace",
			Rules: `
Sidecar shop/other {workloadSelector: {labels: {app: web, tier: back}}, egress: [{hosts: ["bank/*"]}]}
Sidecar shop/default {egress: [{hosts: ["mall/*"]}]}`,
			Want: "c.mall",
		},
		{
			Name: "one that selects others is one of the namespace, and the root namespace's holds for the rest all the same",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: the mesh's, where none is for the workload",
			Rules: `
Sidecar istio-system/default {egress: [{hosts: ["mall/*"]}]}
Sidecar shop/other {workloadSelector: {labels: {app: other}}, egress: [{hosts: ["bank/*"]}]}`,
			Want: "c.mall",
		},
		{
			Name: "another namespace's says nothing",
			Cite: "sidecar.proto: will apply to one or more workload instances in the same namespace",
			Rules: `
Sidecar bank/default {egress: [{hosts: ["mall/*"]}]}
Sidecar bank/web {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["bank/*"]}]}`,
			Want: "b.bank c.mall web.shop",
		},
		{
			Name: "the oldest of two without a selector",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: by age, and the API leaves it undefined",
			Rules: `
Sidecar shop/z {egress: [{hosts: ["bank/*"]}]}
Sidecar shop/a {egress: [{hosts: ["mall/*"]}]}`,
			Want: "b.bank",
		},
		{
			Name: "the oldest of two that select the workload",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/push_context.go: by age, and the API leaves it undefined",
			Rules: `
Sidecar shop/z {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["bank/*"]}]}
Sidecar shop/a {workloadSelector: {labels: {tier: front}}, egress: [{hosts: ["mall/*"]}]}`,
			Want: "b.bank",
		},
		{
			Name:  "the root namespace's with a selector is no default",
			Cite:  "sidecar.proto: This global default `Sidecar` configuration should not have any `workloadSelector`",
			Rules: `Sidecar istio-system/web {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["bank/*"]}]}`,
			Want:  "b.bank c.mall web.shop",
		},
		{
			Name:  "what one entry excludes no other imports",
			Cite:  "sidecar.proto IstioEgressListener.hosts: exposed only when it is imported by some entry and not excluded by any entry",
			Rules: `Sidecar shop/default {egress: [{hosts: ["~bank/*", "*/*", "bank/b.bank"]}]}`,
			Want:  "c.mall web.shop",
		},
		{
			Name: "a listener of the port goes before one of none",
			Cite: "sidecar.proto IstioEgressListener.port: will be based on the listener with the most specific port",
			Rules: `
Sidecar shop/default {egress: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["bank/*"]}, {hosts: ["mall/*"]}]}`,
			Want: "b.bank",
		},
		{
			Name: "one without egress has the namespace's",
			Cite: "sidecar.proto Sidecar.egress: system detected defaults from the namespace-wide or the global default Sidecar",
			Rules: `
Sidecar istio-system/default {egress: [{hosts: ["mall/*"]}]}
Sidecar shop/default {egress: [{hosts: ["bank/*"]}]}
Sidecar shop/web {workloadSelector: {labels: {app: web}}, inboundConnectionPool: {tcp: {maxConnections: 3}}}`,
			Want: "b.bank; 3 connections",
		},
		{
			Name: "one of the namespace without egress has the root namespace's",
			Cite: "sidecar.proto Sidecar.egress: system detected defaults from the namespace-wide or the global default Sidecar",
			Rules: `
Sidecar istio-system/default {egress: [{hosts: ["mall/*"]}]}
Sidecar shop/default {inboundConnectionPool: {tcp: {maxConnections: 3}}}`,
			Want: "c.mall; 3 connections",
		},
		{
			Name: "connections: the DestinationRule's, of the port before the rest",
			Cite: "sidecar.proto Sidecar.inbound_connection_pool: per-port `TrafficPolicy.ConnectionPool` from the `DestinationRule`",
			Rules: `
DestinationRule shop/web {host: web.shop, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}},
  portLevelSettings: [{port: {number: 80}, connectionPool: {tcp: {maxConnections: 2}}}]}}`,
			Want: "b.bank c.mall web.shop; 2 connections",
		},
		{
			Name: "connections: the Sidecar's before the DestinationRule's of the port",
			Cite: "sidecar.proto Sidecar.inbound_connection_pool: top level `InboundConnectionPool` from the `Sidecar`",
			Rules: `
Sidecar shop/default {inboundConnectionPool: {tcp: {maxConnections: 3}}}
DestinationRule shop/web {host: web.shop, trafficPolicy: {
  portLevelSettings: [{port: {number: 80}, connectionPool: {tcp: {maxConnections: 2}}}]}}`,
			Want: "b.bank c.mall web.shop; 3 connections",
		},
		{
			Name: "connections: the Sidecar's of the port before all, and nothing is merged",
			Cite: "sidecar.proto IstioIngressListener.connection_pool: This port level connection pool has the highest precedence",
			Rules: `
Sidecar shop/default {inboundConnectionPool: {tcp: {maxConnections: 3}}, ingress: [
  {port: {number: 8080, name: http, protocol: HTTP}, connectionPool: {http: {http2MaxRequests: 9}}}]}
DestinationRule shop/web {host: web.shop, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}`,
			Want: "b.bank c.mall web.shop",
		},
	}, seen)
}

// seen lists the hosts of port 80 that the one proxy sees, and the limit of connections to its workload, if there is one.
func seen(w *compiletest.World) string {
	var hosts []string
	for _, all := range w.ByProxy(xdstype.VirtualHosts) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if host, ok := strings.CutPrefix(name, "80/"); ok {
				hosts = append(hosts, strings.TrimSuffix(host, ":80"))
			}
		}
	}
	out := strings.Join(hosts, " ")
	for _, all := range w.ByProxy(xdstype.Clusters) {
		for name, e := range all {
			var c clusterv3.Cluster
			if !strings.HasPrefix(name, "inbound|") || proto.Unmarshal(e.Body, &c) != nil {
				continue
			}
			for _, t := range c.GetCircuitBreakers().GetThresholds() {
				if n := t.GetMaxConnections(); n != nil && n.Value < 100 {
					out += fmt.Sprintf("; %d connections", n.Value)
				}
			}
		}
	}
	return out
}
