package attack

import (
	"fmt"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

func allowing(namespaces string) string {
	return fmt.Sprintf("defaultConfig: {proxyMetadata: {FAIRWAY_ALLOW_LOCAL_ENDPOINTS: %q}}\n", namespaces)
}

// TestRulesReachNoSocketOfTheGateway: a rule author of another namespace names loopback addresses, Envoy's
// administration and a unix socket as endpoints behind the shared gateway. The backend that is reached once the mesh's
// configuration allows it shows that the way is open but for that; the administration is never reached.
func TestRulesReachNoSocketOfTheGateway(t *testing.T) {
	m := live.Start(t, live.Options{MeshConfig: allowing("")})
	m.Backends(t, "victim")
	m.Apply(t, m.Rules(t, "rules.txtar:gateway"), m.Rules(t, "rules.txtar:sockets"))
	m.Proxy(t, live.Node{Name: "edge", Namespace: "infra", Router: true, Labels: map[string]string{"istio": "edge"}})
	status := func(name string) int {
		return live.Send(t, live.Request{To: m.Addr("edge", 8000), Host: name + ".evil.test", Path: "/server_info"}).Status
	}
	want := func(step string, want map[string]int) {
		t.Helper()
		for name, code := range want {
			if got := status(name); got != code {
				t.Errorf("%s: %s answers %d, want %d", step, name, got, code)
			}
		}
	}
	want("by default", map[string]int{"near": 503, "admin": 503, "mapped": 503, "unix": 503})
	m.MeshConfig(t, allowing("evil"))
	want("allowed", map[string]int{"near": 200, "admin": 503, "mapped": 503, "unix": 503})
	m.MeshConfig(t, allowing(""))
	want("taken back", map[string]int{"near": 503, "admin": 503})
	var said strings.Builder
	for _, p := range m.Plane.Problems() {
		fmt.Fprintln(&said, p)
	}
	for _, s := range []string{"is a loopback address", "no proxy is sent it", "spec.endpoints[0].address"} {
		if !strings.Contains(said.String(), s) {
			t.Errorf("no problem says %s:\n%s", s, said.String())
		}
	}
}

// TestRulesReadNoVariables: what a rule's headers say of the proxy's environment is not sent; its other headers are.
func TestRulesReadNoVariables(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Backends(t, "reader")
	m.Apply(t, m.Rules(t, "rules.txtar:gateway"), m.Rules(t, "rules.txtar:variables"))
	m.Proxy(t, live.Node{Name: "edge", Namespace: "infra", Router: true, Labels: map[string]string{"istio": "edge"}})
	reply := live.Send(t, live.Request{To: m.Addr("edge", 8000), Host: "reads.evil.test", Path: "/"})
	if reply.Status != 200 || reply.Echo.Header.Get("x-protocol") != "HTTP/1.1" {
		t.Fatalf("status %d, headers %v", reply.Status, reply.Echo.Header)
	}
	for name, value := range map[string]string{
		"x-home": reply.Echo.Header.Get("x-home"),
		"x-all":  reply.Echo.Header.Get("x-all"),
		"x-path": reply.Header.Get("x-path"),
	} {
		if value != "" {
			t.Errorf("%s says %q", name, value)
		}
	}
}
