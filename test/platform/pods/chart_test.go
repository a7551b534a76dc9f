package pods_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

// TestChart: the chart that pilotctl installs carries a mesh. Pods are injected because the chart's webhook says so, trust the roots that
// the control plane writes into their namespace, and call each other; a wrong rule is refused by the chart's other webhook. The other
// verbs of pilotctl find their way to the API server, the control planes, the agents and their Envoys.
func TestChart(t *testing.T) {
	if testing.Short() {
		t.Skip("a mesh of real pods takes minutes")
	}
	w := mesh{world.StartChart(t, 2)}
	page, ratings := w.Bookshop(t)
	w.calls(t, page, ratings)
	w.routes(t, page)
	w.hands(t, page)
	rig.Eventually(t, func() error {
		_, err := w.Try(t.Context(), `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wrong, namespace: shop}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}, weight: 30}, {destination: {host: ratings}, weight: -30}]}]}
`)
		if err == nil || !strings.Contains(err.Error(), "admission webhook") {
			return fmt.Errorf("a rule that is wrong: %w", err)
		}
		return nil
	})
	for _, p := range w.Pods("istio-system", "app", "istiod") {
		code, body, err := rig.Call(http.MethodGet, "http://"+p.IP()+":8080/ready", w.Network.Host.DialContext)
		if err != nil || code != http.StatusOK {
			t.Errorf("%s: %d %s, %v", p.Name(), code, body, err)
		}
	}
}
