package envoy

import (
	"strings"
	"testing"

	"fairway/internal/mesh"
	"fairway/test/envoy/live"
)

// feature is traffic that shows one thing the mesh can do, under hosts that no other feature uses, if a script cannot express it.
type feature struct {
	name string
	show func(*testing.T, *live.Mesh)
}

// The proxies that features share: two sidecars in two regions, here/a and there/a, and a gateway.
const (
	client  = "client"  // labels app: client
	other   = "other"   // labels app: other
	gateway = "gateway" // labels istio: gateway
)

func features() []feature {
	var all []feature
	for _, area := range [][]feature{
		sharing(), guarding(), securing(), entering(), credentials(), endpoints(),
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
	m.ClientNode(t, live.Node{Name: client, Sotw: sotw, Locality: mesh.ParseLocality("here/a")})
	m.ClientNode(t, live.Node{Name: other, Sotw: sotw, Locality: mesh.ParseLocality("there/a")})
	m.Proxy(t, live.Node{Name: gateway, Router: true, Labels: map[string]string{"istio": "gateway"}, Sotw: sotw})
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.show(t, m)
		})
	}
	scripts(t, m, sotw, "testdata/features")
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

func objectName(host string) string {
	return strings.ReplaceAll(strings.ReplaceAll(host, "*", "any"), ".", "-")
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
