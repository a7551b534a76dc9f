package live

import (
	_ "embed"
	"testing"

	"fairway/test/rig"
)

// clientRules are the Sidecar object of a client.
//
//go:embed client.yaml
var clientRules string

// Client starts a sidecar of namespace default for a workload with the label app: <name>. Its workload reaches every
// HTTP service at ports HTTPPort and OtherPort of the address "<name>-egress", and TCP services at their own addresses.
func (m *Mesh) Client(t testing.TB, name string) *Envoy {
	t.Helper()
	return m.ClientNode(t, Node{Name: name})
}

// ClientNode is Client for a node with more to say. Its labels must hold app where they are given.
func (m *Mesh) ClientNode(t testing.TB, n Node) *Envoy {
	t.Helper()
	if n.Labels == nil {
		n.Labels = map[string]string{"app": n.Name}
	}
	m.Set(t, rig.Fill(t, "client.yaml", clientRules, rig.Pairs("name", n.Name, "app", n.Labels["app"]), m.Address))
	return m.Proxy(t, n)
}

// From is a request of the workload beside the sidecar of that name.
func (m *Mesh) From(name, host string) Request {
	return Request{To: m.Addr(name+"-egress", HTTPPort), Host: host}
}
