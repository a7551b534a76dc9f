package live

import "testing"

// Client starts a sidecar of namespace default whose workload has the label app: <name>. Its workload reaches every
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
	m.Set(t, `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: `+n.Name+`, namespace: default}
spec:
  workloadSelector: {labels: {app: `+n.Labels["app"]+`}}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: <`+n.Name+`-egress>, captureMode: NONE, hosts: ["*/*"]}
  - {port: {number: 8001, name: http-other, protocol: HTTP}, bind: <`+n.Name+`-egress>, captureMode: NONE, hosts: ["*/*"]}
  - {hosts: ["*/*"]}
`)
	return m.Proxy(t, n)
}

// From is a request of the workload beside the sidecar of that name.
func (m *Mesh) From(name, host string) Request {
	return Request{To: m.Addr(name+"-egress", HTTPPort), Host: host}
}
