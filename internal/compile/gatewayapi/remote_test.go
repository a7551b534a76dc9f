package gatewayapi_test

import (
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/config"
)

// TestRemote: a Gateway of a remote class makes no objects, and its status repeats the addresses of its spec. What was deployed for it
// under another class is not wanted any more.
func TestRemote(t *testing.T) {
	const gateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: CLASS
  addresses: [{type: IPAddress, value: 192.0.2.7}, {type: Hostname, value: east.example.com}]
  listeners: [{name: tls, port: 15443, protocol: TLS, tls: {mode: Passthrough}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: named}
spec: {controllerName: fairway/unmanaged-gateway}
`
	for _, class := range []string{"istio-remote", "fairway-remote", "named"} {
		w := compiletest.InCluster(t, "east")
		stored(w, strings.Replace(gateway, "CLASS", class, 1))
		if d := deployment(w, edge); d == nil || !d.Unwanted {
			t.Errorf("%s: it is deployed as %+v", class, d)
		}
		status := w.Print("gatewayapi/statuses", "Gateway.gateway")
		if want := "Accepted=True, Programmed=True; addresses 192.0.2.7, east.example.com"; !strings.Contains(status, want) {
			t.Errorf("%s: the status is %s, want %s", class, status, want)
		}
		if made := w.Print("gatewayapi/made gateways", ""); strings.Contains(made, "edge") {
			t.Errorf("%s: made are %s", class, made)
		}
		if c := condition(w, config.Key{Kind: config.GatewayClass, Name: "named"}, "Accepted"); c.Status != "True" {
			t.Errorf("%s: the class is %+v", class, c)
		}
	}
}
