package envoy

import (
	"fmt"
	"testing"

	"fairway/test/envoy/live"
)

// TestAlone runs testdata/alone: cases that take a port of every address, so that each mesh has a network of its own.
func TestAlone(t *testing.T) {
	live.NeedEnvoy(t)
	if !live.Isolated(t) {
		return
	}
	live.Redirect(t, 15001, 15006)
	for _, sotw := range []bool{false, true} {
		t.Run(fmt.Sprintf("sotw %t", sotw), func(t *testing.T) {
			m := live.Start(t, live.Options{})
			m.Proxy(t, live.Node{Name: gateway, Router: true, Sotw: sotw, Labels: map[string]string{
				"istio": "ingressgateway", "gateway.networking.k8s.io/gateway-name": "gwa",
			}})
			scripts(t, m, sotw, "testdata/alone")
		})
	}
}
