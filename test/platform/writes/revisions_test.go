package writes_test

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"fairway/test/plane"
)

// TestRevisionsDeployGateways: of two control planes, each deploys the Gateways of its revision, whichever leads the cluster. A namespace
// may name the revision, too. The cluster's leader has those that name none.
func TestRevisionsDeployGateways(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	first := w.deploying(t)
	plane.Start(t, first)
	w.Apply(t, strings.ReplaceAll(deployed, "name: edge,", "name: plain,"))
	by := func(gateway, revision string) {
		t.Helper()
		_, deployment, _ := paths(gateway + "-istio")
		has(t, w, deployment, func(o *appsv1.Deployment) string { return want(o.Spec.Template.Labels["istio.io/rev"], revision) })
		w.addresses(t, gateway, "AddressNotAssigned", "")
	}
	by("plain", "")
	second := w.deploying(t)
	second.Revision = "v2"
	plane.Start(t, second)
	w.Apply(t, strings.ReplaceAll(deployed, "{name: edge,", "{name: labelled, labels: {istio.io/rev: v2},"))
	by("labelled", "v2")
	w.Patch(t, "/api/v1/namespaces/shop", `{"metadata": {"labels": {"istio.io/rev": "v2"}}}`)
	by("plain", "v2")
}

// TestClassOfGatewayChanges: the objects of another class get their pods before those of the earlier one are deleted.
func TestClassOfGatewayChanges(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	plane.Start(t, w.deploying(t))
	w.Apply(t, deployed)
	account, earlier, service := paths("edge-istio")
	has(t, w, earlier, func(*appsv1.Deployment) string { return "" })
	w.addresses(t, "edge", "AddressNotAssigned", "")
	w.Patch(t, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/edge", `{"spec": {"gatewayClassName": "fairway"}}`)
	_, deployment, _ := paths("edge-fairway")
	has(t, w, deployment, func(*appsv1.Deployment) string { return "" })
	for _, path := range []string{account, earlier, service} {
		if _, err := w.Do(t.Context(), http.MethodGet, path, "", nil); err != nil {
			t.Errorf("before there are pods of the new Deployment: %v", err)
		}
	}
	w.Patch(t, deployment, `{"spec": {"replicas": 0}}`) // no kubelet is there: with none, it has all its pods
	for _, path := range []string{account, earlier, service} {
		w.lacks(t, path)
	}
}
