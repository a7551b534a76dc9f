package compile_test

import (
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
)

// A row that is computed anew reads the same cells in the same order, however many labels its proxy has: the audit takes
// another order for a read that is not recorded.
func TestLabelsAreReadInOrder(t *testing.T) {
	w := compiletest.New(t)
	w.Apply(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: rule, namespace: shop}
spec:
  hosts: [a.example.com]
  http: [{match: [{sourceLabels: {app: web}}], route: [{destination: {host: a.example.com}}]}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: rule, namespace: shop}
spec:
  host: a.example.com
  trafficPolicy: {loadBalancer: {localityLbSetting: {failoverPriority: [app, zone, rack]}}}
`)
	p := compiletest.Sidecar("web", "shop", "10.0.0.1")
	p.Labels = mesh.MakeLabels(map[string]string{"app": "web", "version": "v1", "zone": "a", "rack": "r", "tier": "front", "team": "shop"})
	w.Connect(p)
	w.Settle()
	if found := w.Store.Recheck(5000); len(found) > 0 {
		t.Errorf("%d rows differ: %v", len(found), found[0])
	}
}
