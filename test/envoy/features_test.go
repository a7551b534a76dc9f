package envoy

import (
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

// feature is traffic that shows one thing the mesh can do, under hosts that no other feature uses.
type feature struct {
	name string
	show func(*testing.T, *live.Mesh)
}

// The proxies that features share: two sidecars and a gateway.
const (
	client  = "client"  // labels app: client
	other   = "other"   // labels app: other
	gateway = "gateway" // labels istio: gateway
)

func features() []feature {
	var all []feature
	for _, area := range [][]feature{
		routing(), matching(), shaping(), disturbing(), naming(), entries(), connections(), balancing(), guarding(),
		securing(), scoping(), entering(), credentials(), endpoints(),
	} {
		all = append(all, area...)
	}
	return all
}

// TestFeatures shows every feature with Envoys that speak the incremental protocol.
func TestFeatures(t *testing.T) { show(t, false, features()) }

// TestStateOfTheWorld shows the same with Envoys that speak the state-of-the-world protocol.
func TestStateOfTheWorld(t *testing.T) { show(t, true, features()) }

func show(t *testing.T, sotw bool, all []feature) {
	t.Parallel()
	m := live.Start(t, live.Options{})
	m.ClientNode(t, live.Node{Name: client, Sotw: sotw})
	m.ClientNode(t, live.Node{Name: other, Sotw: sotw})
	m.Proxy(t, live.Node{Name: gateway, Router: true, Labels: map[string]string{"istio": "gateway"}, Sotw: sotw})
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.show(t, m)
		})
	}
}

// bothProtocols runs a test over delta xDS and over the state of the world, side by side.
func bothProtocols(t *testing.T, test func(t *testing.T, sotw bool)) {
	for name, sotw := range map[string]bool{"delta": false, "state of the world": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, sotw)
		})
	}
}

// service is a ServiceEntry of namespace default whose port 8000 leads to port 8080 of its endpoints, each written
// "name" or "name:version"; the name is that of the address too.
func service(host string, endpoints ...string) string {
	var b strings.Builder
	b.WriteString(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ` + objectName(host) + `, namespace: default}
spec:
  hosts: ["` + host + `"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints:
`)
	for _, e := range endpoints {
		name, version, ok := strings.Cut(e, ":")
		if !ok {
			version = name
		}
		b.WriteString("  - {address: <" + name + ">, labels: {version: " + version + "}}\n")
	}
	return b.String()
}

func objectName(host string) string {
	return strings.ReplaceAll(strings.ReplaceAll(host, "*", "any"), ".", "-")
}

// subsets is a DestinationRule with a subset for each version.
func subsets(host string, versions ...string) string {
	out := destination(host, "  subsets:\n")
	for _, v := range versions {
		out += "  - {name: " + v + ", labels: {version: " + v + "}}\n"
	}
	return out
}

// destination is a DestinationRule of namespace default; spec is indented by two spaces.
func destination(host, spec string) string {
	return `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ` + objectName(host) + `, namespace: default}
spec:
  host: "` + host + "\"\n" + spec
}

// virtual is a VirtualService of namespace default; spec is indented by two spaces.
func virtual(host, spec string) string {
	return `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ` + objectName(host) + `, namespace: default}
spec:
  hosts: ["` + host + "\"]\n" + spec
}

// from is a request of the workload beside the client sidecar.
func from(m *live.Mesh, host string) live.Request { return m.From(client, host) }

// at is from with a path.
func at(m *live.Mesh, host, path string) live.Request {
	r := from(m, host)
	r.Path = path
	return r
}

// with is a request with a header more.
func with(r live.Request, header, value string) live.Request {
	headers := map[string]string{header: value}
	for k, v := range r.Header {
		headers[k] = v
	}
	r.Header = headers
	return r
}

func wantStatus(t *testing.T, r live.Reply, status int) {
	t.Helper()
	if r.Status != status {
		t.Errorf("status %d, want %d; body %q", r.Status, status, r.Body)
	}
}

func wantServer(t *testing.T, r live.Reply, server string) {
	t.Helper()
	if r.Echo.Server != server {
		t.Errorf("answered by %q (status %d, %q), want %q", r.Echo.Server, r.Status, r.Body, server)
	}
}

func wantHeader(t *testing.T, where string, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %q, want %q", where, got, want)
	}
}
