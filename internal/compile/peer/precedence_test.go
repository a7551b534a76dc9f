package peer_test

import (
	"regexp"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
)

// TestPrecedence: the PeerAuthentication that decides what the ports of shop's workload, and of the root namespace's, accept.
func TestPrecedence(t *testing.T) {
	const (
		open   = "shop: 8080 PERMISSIVE 9000 PERMISSIVE\nistio-system: 8080 PERMISSIVE"
		strict = "shop: 8080 STRICT 9000 STRICT\nistio-system: 8080 PERMISSIVE"
		plain  = "shop: 8080 - 9000 -\nistio-system: 8080 PERMISSIVE"
		all    = "shop: 8080 STRICT 9000 STRICT\nistio-system: 8080 STRICT"
	)
	compiletest.Precedence(t, `
ServiceEntry shop/a {hosts: [a.shop.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.0.0.1}],
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}, {number: 9000, name: tcp, protocol: TCP}]}
ServiceEntry istio-system/r {hosts: [r.istio-system.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC,
  endpoints: [{address: 10.0.0.9}], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]}
`, []mesh.Proxy{
		compiletest.Proxy("sidecar a.shop 10.0.0.1 app=a,tier=front mutual"),
		compiletest.Proxy("sidecar r.istio-system 10.0.0.9 app=a mutual"),
	}, []compiletest.Row{
		{
			Name: "nothing is said",
			Cite: "peer_authentication.proto Mode.UNSET: Otherwise treated as `PERMISSIVE`",
			Want: open,
		},
		{
			Name:  "the root namespace's holds for the mesh",
			Cite:  "peer_authentication.proto PeerAuthentication.selector: If it is in the root namespace, it would be applied",
			Rules: `PeerAuthentication istio-system/mesh {mtls: {mode: STRICT}}`,
			Want:  all,
		},
		{
			Name: "the namespace's goes before the mesh's",
			Cite: "beyond the API reference: docs/concepts/security, Selector field: the narrowest: workload, namespace, mesh",
			Rules: `
PeerAuthentication istio-system/mesh {mtls: {mode: PERMISSIVE}}
PeerAuthentication shop/all {mtls: {mode: STRICT}}`,
			Want: strict,
		},
		{
			Name: "the namespace's goes before the mesh's also where it asks for less",
			Cite: "beyond the API reference: docs/concepts/security, Selector field: the narrowest: workload, namespace, mesh",
			Rules: `
PeerAuthentication shop/all {mtls: {mode: DISABLE}}
PeerAuthentication istio-system/mesh {mtls: {mode: STRICT}}`,
			Want: "shop: 8080 - 9000 -\nistio-system: 8080 STRICT",
		},
		{
			Name: "the workload's goes before its namespace's",
			Cite: "peer_authentication.proto: for all workloads under namespace `foo`, but require mTLS for workload `finance`",
			Rules: `
PeerAuthentication shop/all {mtls: {mode: PERMISSIVE}}
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}}`,
			Want: strict,
		},
		{
			Name: "the workload's goes before the mesh's",
			Cite: "beyond the API reference: docs/concepts/security, Selector field: the narrowest: workload, namespace, mesh",
			Rules: `
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, mtls: {mode: DISABLE}}
PeerAuthentication istio-system/mesh {mtls: {mode: STRICT}}`,
			Want: "shop: 8080 - 9000 -\nistio-system: 8080 STRICT",
		},
		{
			Name: "another namespace's says nothing",
			Cite: "peer_authentication.proto PeerAuthentication.selector: match with workloads in the same namespace as the policy",
			Rules: `
PeerAuthentication bank/all {mtls: {mode: STRICT}}
PeerAuthentication bank/a {selector: {matchLabels: {app: a}}, mtls: {mode: DISABLE}}`,
			Want: open,
		},
		{
			Name: "a selector wants all of its labels",
			Cite: "selector.proto WorkloadSelector.match_labels: One or more labels that indicate a specific set of pods",
			Rules: `
PeerAuthentication shop/both {selector: {matchLabels: {app: a, tier: front}}, mtls: {mode: STRICT}}
PeerAuthentication shop/half {selector: {matchLabels: {app: a, tier: back}}, mtls: {mode: DISABLE}}`,
			Want: strict,
		},
		{
			Name: "a workload's mode that is UNSET is its namespace's",
			Cite: "peer_authentication.proto Mode.UNSET: Inherit from parent, if has one",
			Rules: `
PeerAuthentication istio-system/mesh {mtls: {mode: PERMISSIVE}}
PeerAuthentication shop/all {mtls: {mode: STRICT}}
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, mtls: {mode: UNSET}}`,
			Want: strict,
		},
		{
			Name: "a namespace's mode that is not there is the mesh's",
			Cite: "peer_authentication.proto PeerAuthentication.mtls: If not defined, inherit from parent",
			Rules: `
PeerAuthentication istio-system/mesh {mtls: {mode: STRICT}}
PeerAuthentication shop/all {}`,
			Want: all,
		},
		{
			Name: "neither the workload nor its namespace has a mode: the mesh's",
			Cite: "peer_authentication.proto PeerAuthentication.mtls: If not defined, inherit from parent",
			Rules: `
PeerAuthentication istio-system/mesh {mtls: {mode: STRICT}}
PeerAuthentication shop/all {mtls: {mode: UNSET}}
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}}`,
			Want: all,
		},
		{
			Name: "a port's mode goes before the workload's",
			Cite: "peer_authentication.proto: strict mTLS for all `finance` workloads, but leaves the port `8080` to plaintext",
			Rules: `
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: DISABLE}}}`,
			Want: "shop: 8080 - 9000 STRICT\nistio-system: 8080 PERMISSIVE",
		},
		{
			Name: "beside a port's mode the others have the namespace's",
			Cite: "peer_authentication.proto: inherits mTLS mode from namespace (or mesh) settings, and disables mTLS for workload port",
			Rules: `
PeerAuthentication shop/all {mtls: {mode: STRICT}}
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, portLevelMtls: {8080: {mode: DISABLE}}}`,
			Want: "shop: 8080 - 9000 STRICT\nistio-system: 8080 PERMISSIVE",
		},
		{
			Name: "a port's mode that is UNSET is the workload's, not the namespace's",
			Cite: "peer_authentication.proto Mode.UNSET: Inherit from parent, if has one",
			Rules: `
PeerAuthentication shop/all {mtls: {mode: DISABLE}}
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: UNSET}}}`,
			Want: strict,
		},
		{
			Name: "a port is the workload's, not the service's",
			Cite: "peer_authentication.proto PeerAuthentication.port_level_mtls: The port refers to the port of the workload",
			Rules: `
PeerAuthentication shop/a {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}, portLevelMtls: {80: {mode: DISABLE}}}`,
			Want: strict,
		},
		{
			Name: "the oldest of two of a namespace",
			Cite: "beyond the API reference: docs/concepts/security, Selector field: newer ones of the mesh or namespace are ignored",
			Rules: `
PeerAuthentication shop/z {mtls: {mode: STRICT}}
PeerAuthentication shop/a {mtls: {mode: DISABLE}}`,
			Want: strict,
		},
		{
			Name: "the oldest of two of the mesh",
			Cite: "beyond the API reference: docs/concepts/security, Selector field: newer ones of the mesh or namespace are ignored",
			Rules: `
PeerAuthentication istio-system/z {mtls: {mode: STRICT}}
PeerAuthentication istio-system/a {mtls: {mode: DISABLE}}`,
			Want: all,
		},
		{
			Name: "the oldest of two for a workload, with its ports: they are not merged",
			Cite: "beyond the API reference: docs/concepts/security, Selector field: of those for a workload the oldest is picked",
			Rules: `
PeerAuthentication shop/z {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}}
PeerAuthentication shop/a {selector: {matchLabels: {tier: front}}, mtls: {mode: DISABLE}, portLevelMtls: {8080: {mode: DISABLE}}}`,
			Want: strict,
		},
		{
			Name: "of one age the first by name",
			Cite: "beyond the API reference: istio/istio, pilot/pkg/model/config.go: sorted by age, then name, then namespace",
			Rules: `
PeerAuthentication shop/b@1 {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}}
PeerAuthentication shop/a@1 {selector: {matchLabels: {app: a}}, mtls: {mode: DISABLE}}`,
			Want: plain,
		},
		{
			Name: "one with a selector in the root namespace is ignored, by that namespace's workloads too",
			Cite: "peer_authentication.proto: policies with workload selectors are ignored when deployed in the root namespace",
			Rules: `
PeerAuthentication istio-system/a {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: DISABLE}}}`,
			Want: open,
		},
	}, taken)
}

var inboundPort = regexp.MustCompile(`(\d+)/\w+=\S+?:\d+(?: ([A-Z]+))?[;\]]`)

// taken lists what the ports of each namespace's workload accept: "-" for plaintext only.
func taken(w *compiletest.World) string {
	var out strings.Builder
	for _, namespace := range []string{"shop", "istio-system"} {
		out.WriteString(namespace + ":")
		for _, m := range inboundPort.FindAllStringSubmatch(w.Print("inbounds", namespace), -1) {
			mode := m[2]
			if mode == "" {
				mode = "-"
			}
			out.WriteString(" " + m[1] + " " + mode)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// TestIgnored: an object that has no effect in its namespace gets a problem.
func TestIgnored(t *testing.T) {
	w := compiletest.New(t)
	w.Connect(compiletest.Proxy("sidecar r.istio-system 10.0.0.9 app=a mutual"))
	w.Apply("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: a, namespace: istio-system}\n" +
		"spec: {selector: {matchLabels: {app: a}}, mtls: {mode: STRICT}}\n")
	w.Settle()
	const want = "warning: PeerAuthentication istio-system/a spec.selector: " +
		"a PeerAuthentication of the root namespace that has a selector does nothing, as with Istio; " +
		"remove the selector, and it holds for the mesh; or write it in the workloads' own namespace\n"
	if got := w.ProblemText(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
