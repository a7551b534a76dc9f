package pods_test

import (
	"fmt"
	"net/http"
	"testing"

	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

const front = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: shop, annotations: {networking.istio.io/service-type: ClusterIP}}
spec: {gatewayClassName: fairway, listeners: [{name: web, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ratings, namespace: shop}
spec:
  parentRefs: [{name: front}]
  rules: [{backendRefs: [{name: ratings, port: 9080}]}]
`

// TestGatewayAPI: a Gateway and a route are enough. Its pods are made and injected, its status says its address, and a request to the
// address is answered.
func TestGatewayAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("a mesh of real pods takes minutes")
	}
	w := mesh{world.StartChart(t, 1)}
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	w.Deploy(t, world.Workload{Name: "ratings", Version: "v1"})
	w.Apply(t, front)
	w.Ready(t, "shop", "gateway.networking.k8s.io/gateway-name", "front", 1)
	ratings := w.Ready(t, "shop", "app", "ratings", 1)[0]
	rig.Eventually(t, func() error {
		o, err := w.Do(t.Context(), http.MethodGet, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/front", "", nil)
		if err != nil {
			return err
		}
		status, _ := o["status"].(map[string]any)
		addresses, _ := status["addresses"].([]any)
		if len(addresses) != 1 {
			return fmt.Errorf("the Gateway has not one address: %v", status)
		}
		at, _ := addresses[0].(map[string]any)
		answer, err := world.Ask(ratings.DialContext, fmt.Sprint(at["value"], ":80"), "ratings.example", nil)
		if err == nil && answer.Service != "ratings" {
			err = fmt.Errorf("%+v answers", answer)
		}
		return err
	})
}
