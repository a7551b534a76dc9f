package gateway_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// TestOneProxysWordsTakeNoServer: if one gateway cannot read the certificate of a server, the server stays in the layer for the other
// gateways. It goes once all gateways have reported this.
func TestOneProxysWordsTakeNoServer(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec:
  selector: {istio: ingress}
  servers:
  - {port: {number: 443, name: https, protocol: HTTPS}, hosts: ["a.example"], tls: {mode: SIMPLE, serverCertificate: /etc/a.pem, privateKey: /etc/a.key}}
  - {port: {number: 443, name: more, protocol: HTTPS}, hosts: ["b.example"], tls: {mode: SIMPLE, serverCertificate: /etc/b.pem, privateKey: /etc/b.key}}
`)
	gateway := func(name, ip string) mesh.Proxy {
		return mesh.Proxy{
			ID:        mesh.ProxyID("router~" + ip + "~" + name + ".infra~x"),
			Name:      name,
			Namespace: "infra",
			IP:        ip,
			IPs:       ip,
			Type:      mesh.Router,
			Labels:    "istio=ingress",
		}
	}
	honest, liar := gateway("honest", "10.0.0.1"), gateway("liar", "10.0.0.2")
	w.Connect(honest, liar)
	w.Settle()
	served := func(file string) (found bool) {
		w.Store.Read(func(tx *table.Tx) {
			for _, published := range w.Out.Resources[xdstype.Listeners] {
				for _, e := range table.All(tx, published) {
					found = found || strings.Contains(string(e.Body), file)
				}
			}
		})
		return found
	}
	const listener, words = "type.googleapis.com/envoy.config.listener.v3.Listener", "Invalid path: /etc/a.pem"
	refuse := func(p mesh.Proxy) {
		w.Reject(listener, []string{"0.0.0.0_443"}, p.ID, words)
		w.Settle()
	}
	if !served("/etc/a.pem") || !served("/etc/b.pem") {
		t.Fatal("the servers are not served")
	}
	refuse(liar)
	if !served("/etc/a.pem") || !served("/etc/b.pem") {
		t.Error("the words of one proxy took a server from another")
	}
	if text := w.ProblemText(); !strings.Contains(text, "cannot read /etc/a.pem") {
		t.Errorf("no problem says what the proxy could not read:\n%s", text)
	}
	refuse(honest)
	if served("/etc/a.pem") || !served("/etc/b.pem") {
		t.Error("what no proxy can read stands in the way of the other server")
	}
	w.In.Proxies.Delete(honest.ID)
	w.Connect(gateway("new", "10.0.0.3"))
	w.Settle()
	if !served("/etc/a.pem") {
		t.Error("a proxy that said nothing does not get the server")
	}
}
