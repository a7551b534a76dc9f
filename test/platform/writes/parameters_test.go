package writes_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/test/plane"
)

// TestParametersOfGateways: what a ConfigMap says is merged over the objects of a Gateway. An autoscaler and a disruption budget come and
// go with their keys. Wrong parameters leave everything as it is, and the Gateway's status names the mistake.
func TestParametersOfGateways(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	plane.Start(t, w.deploying(t))
	w.Apply(t, strings.Replace(deployed, "infrastructure:",
		"infrastructure:\n    parametersRef: {group: '', kind: ConfigMap, name: own}", 1))
	gateway := func(condition, reason, message string) {
		t.Helper()
		has(t, w, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/edge", func(o *gatewayv1.Gateway) string {
			for _, c := range o.Status.Conditions {
				if c.Type == condition && c.Reason == reason && strings.Contains(c.Message, message) {
					return ""
				}
			}
			return fmt.Sprintf("%v, want %s with %s: %s", o.Status.Conditions, condition, reason, message)
		})
	}
	gateway("Accepted", "InvalidParameters", "there is no ConfigMap shop/own")

	const own = `
apiVersion: v1
kind: ConfigMap
metadata: {name: own, namespace: shop}
data:
`
	_, deployment, service := paths("edge-istio")
	const autoscaler = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/edge-istio"
	const budget = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/edge-istio"
	w.Apply(t, own+`  deployment: |
    spec: {replicas: 3, template: {spec: {containers: [{name: istio-proxy, resources: {requests: {cpu: 1500m}}}]}}}
  service: "spec: {externalTrafficPolicy: Local}"
  horizontalPodAutoscaler: "spec: {minReplicas: 2, maxReplicas: 4}"
  podDisruptionBudget: "spec: {maxUnavailable: 1}"
`)
	has(t, w, autoscaler, func(o *autoscalingv2.HorizontalPodAutoscaler) string {
		is := fmt.Sprint(*o.Spec.MinReplicas, o.Spec.MaxReplicas, o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name)
		return want(is, "2 4Deploymentedge-istio")
	})
	has(t, w, budget, func(o *policyv1.PodDisruptionBudget) string {
		is := o.Spec.MaxUnavailable.String() + fmt.Sprint(o.Spec.Selector.MatchLabels)
		return want(is, "1map[gateway.networking.k8s.io/gateway-name:edge]")
	})
	cpu := func(o *appsv1.Deployment) string {
		return o.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()
	}
	has(t, w, deployment, func(o *appsv1.Deployment) string { return want(fmt.Sprint(cpu(o), *o.Spec.Replicas), "1500m1") })
	has(t, w, service, func(o *corev1.Service) string { return want(string(o.Spec.ExternalTrafficPolicy), "Local") })
	gateway("Accepted", "Accepted", "")

	// Without the keys, the objects go. The replicas are no autoscaler's any more.
	w.Apply(t, own+"  deployment: 'spec: {replicas: 3}'\n")
	w.lacks(t, autoscaler)
	w.lacks(t, budget)
	is := has(t, w, deployment, func(o *appsv1.Deployment) string { return want(fmt.Sprint(cpu(o), *o.Spec.Replicas), "100m3") })
	has(t, w, service, func(o *corev1.Service) string { return want(string(o.Spec.ExternalTrafficPolicy), "Cluster") })

	w.Apply(t, own+"  deployment: 'spec: {replica: 4}'\n")
	gateway("Accepted", "InvalidParameters", `unknown field "spec.replica"`)
	w.Apply(t, own+"  podDisruptionBudget: 'spec: {minAvailable: 1, maxUnavailable: 2}'\n  deployment: 'spec: {replicas: 3}'\n")
	gateway("Programmed", "Invalid", "the API server refuses PodDisruptionBudget edge-istio: ")
	if now := has(t, w, deployment, func(*appsv1.Deployment) string { return "" }); now.Generation != is.Generation {
		t.Error("the Deployment was written, and is as it was")
	}
	w.Apply(t, own+"  podDisruptionBudget: 'spec: {minAvailable: 1}'\n")
	gateway("Programmed", "AddressNotAssigned", "")
}
