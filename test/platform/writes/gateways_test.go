package writes_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/app"
	"fairway/test/plane"
	"fairway/test/rig"
)

const deployed = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  gatewayClassName: istio
  infrastructure:
    labels: {team: front, istio.io/rev: other}
    annotations: {example.com/note: a, sidecar.istio.io/proxyImage: evil}
  listeners:
  - {name: web, port: 80, protocol: HTTP}
  - {name: own, port: 80, protocol: HTTP, hostname: own.example.com}
  - {name: ready, port: 15021, protocol: HTTP}
`

// deploying are options of a control plane that deploys Gateways.
func (w world) deploying(t *testing.T) app.Options {
	t.Helper()
	o := w.options(t, nil, "leader", "system:masters")
	o.GatewayAPI.Deploys = true
	return o
}

// has waits until an object is as wanted.
func has[T any](t *testing.T, w world, path string, wrong func(o *T) string) (o T) {
	t.Helper()
	rig.Eventually(t, func() error {
		o = *new(T)
		if err := w.get(t.Context(), path, &o); err != nil {
			return err
		}
		if text := wrong(&o); text != "" {
			return fmt.Errorf("%s: %s", path, text)
		}
		return nil
	})
	return o
}

// lacks waits until there is no object.
func (w world) lacks(t *testing.T, path string) {
	t.Helper()
	rig.Eventually(t, func() error {
		if err := w.get(t.Context(), path, new(metav1.PartialObjectMetadata)); err == nil || !strings.Contains(err.Error(), "not found") {
			return fmt.Errorf("%s is there: %w", path, err)
		}
		return nil
	})
}

// paths are those of the objects of a Gateway.
func paths(name string) (account, deployment, service string) {
	return "/api/v1/namespaces/shop/serviceaccounts/" + name, "/apis/apps/v1/namespaces/shop/deployments/" + name,
		"/api/v1/namespaces/shop/services/" + name
}

// ports lists the ports of a Service.
func ports(s *corev1.Service) string {
	var out []string
	for _, p := range s.Spec.Ports {
		out = append(out, fmt.Sprintf("%s %d", p.Name, p.Port))
	}
	return strings.Join(out, ", ")
}

// want returns a text if something is not as wanted.
func want(got, want string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%q, want %q", got, want)
}

// TestGatewaysAreDeployed: a Gateway has a ServiceAccount, a Deployment and a Service, which follow it and go with it. Fields of others in
// them stay, and objects of others are left alone.
func TestGatewaysAreDeployed(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io",
		"listenersets.gateway.networking.k8s.io")
	gateway := w.Apply(t, deployed)[0]
	plane.Start(t, w.deploying(t))
	account, deployment, service := paths("edge-istio")
	about := func(m *metav1.ObjectMeta) string {
		owner := metav1.GetControllerOf(m)
		if owner == nil {
			return "it has no owner"
		}
		const api = "gateway.networking.k8s.io/"
		got := []string{
			m.Labels[api+"gateway-name"], m.Labels[api+"gateway-class-name"], m.Labels["team"], m.Labels["istio.io/rev"],
			m.Annotations["example.com/note"], m.Annotations["sidecar.istio.io/proxyImage"], owner.Kind, string(owner.UID),
		}
		return want(strings.Join(got, " "), "edge istio front  a  Gateway "+gateway.Meta("uid"))
	}
	has(t, w, account, func(o *corev1.ServiceAccount) string { return about(&o.ObjectMeta) })
	made := has(t, w, service, func(o *corev1.Service) string {
		return about(&o.ObjectMeta) + want(ports(o), "status-port 15021, http-80 80") + want(string(o.Spec.Type), "LoadBalancer")
	})
	if app := made.Spec.Ports[1].AppProtocol; app == nil || *app != "http" {
		t.Errorf("the port's protocol is %v", app)
	}
	has(t, w, deployment, func(o *appsv1.Deployment) string {
		pod := o.Spec.Template
		got := []string{
			pod.Annotations["inject.istio.io/templates"], pod.Annotations["example.com/note"], pod.Labels["sidecar.istio.io/inject"],
			pod.Labels["team"], pod.Spec.ServiceAccountName, pod.Spec.Containers[0].Image, fmt.Sprint(o.Spec.Selector.MatchLabels),
		}
		return about(&o.ObjectMeta) +
			want(strings.Join(got, " "), "gateway a true front edge-istio auto map[gateway.networking.k8s.io/gateway-name:edge]")
	})

	// Addresses.
	w.addresses(t, "edge", "AddressNotAssigned", "")
	w.Patch(t, service+"/status", `{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"hostname": "edge.example.com"}]}}}`)
	w.addresses(t, "edge", "Pending", "192.0.2.7 edge.example.com")

	// An autoscaler's replicas, and another's annotation and port survive; the Gateway's own fields come back.
	w.Patch(t, deployment, `{"spec": {"replicas": 4}, "metadata": {"annotations": {"example.com/other": "b"}}}`)
	w.Patch(t, service, `{"spec": {"ports": [{"name": "theirs", "port": 99}]}}`)
	w.Apply(t, strings.ReplaceAll(deployed, "port: 80,", "port: 8080,")+`---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: shop}
spec: {parentRef: {name: edge}, listeners: [{name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}]}
`)
	has(t, w, service, func(o *corev1.Service) string { return want(ports(o), "theirs 99, status-port 15021, http-8080 8080") })
	const at = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/edge"
	w.Patch(t, at, `{"spec": {"allowedListeners": {"namespaces": {"from": "Same"}}}}`)
	has(t, w, service, func(o *corev1.Service) string {
		return want(ports(o), "theirs 99, status-port 15021, tls-443 443, http-8080 8080")
	})
	has(t, w, deployment, func(o *appsv1.Deployment) string {
		return want(fmt.Sprint(*o.Spec.Replicas, o.Annotations["example.com/other"]), "4b")
	})
	has(t, w, at, func(o *gatewayv1.Gateway) string {
		if o.Status.AttachedListenerSets == nil || *o.Status.AttachedListenerSets != 1 {
			return "it has not one ListenerSet"
		}
		return ""
	})

	// Another type of Service, and a static address.
	w.Patch(t, at,
		`{"metadata": {"annotations": {"networking.istio.io/service-type": "ClusterIP"}}}`)
	cluster := has(t, w, service, func(o *corev1.Service) string { return want(string(o.Spec.Type), "ClusterIP") })
	w.addresses(t, "edge", "Pending", cluster.Spec.ClusterIP)
	// By hand: the objects that were made are deleted, and the address is that of the named Service.
	w.Apply(t, `
apiVersion: v1
kind: Service
metadata: {name: own, namespace: shop}
spec: {selector: {app: own}, ports: [{port: 80}]}
`)
	own := has(t, w, "/api/v1/namespaces/shop/services/own", func(*corev1.Service) string { return "" })
	w.Patch(t, at,
		`{"spec": {"addresses": [{"type": "Hostname", "value": "own.shop.svc.cluster.local"}]}}`)
	for _, path := range []string{account, deployment, service} {
		w.lacks(t, path)
	}
	w.addresses(t, "edge", "Pending", own.Spec.ClusterIP)
}

// addresses waits until the status of a Gateway says where it is reached, and why it is not programmed.
func (w world) addresses(t *testing.T, name, reason, want string) {
	t.Helper()
	has(t, w, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/"+name, func(o *gatewayv1.Gateway) string {
		var all []string
		for _, a := range o.Status.Addresses {
			all = append(all, a.Value)
		}
		said := said(o.Status.Conditions, o.Generation)
		if strings.Join(all, " ") != want || !strings.Contains(said, " "+reason) {
			return fmt.Sprintf("addresses %q, %s; want %q, %s", all, said, want, reason)
		}
		return ""
	})
}

// TestGatewaysBesideOthers: the control plane does not change an object of another owner, and the Gateway's status says so. It deploys
// Gateways with names of any length.
func TestGatewaysBesideOthers(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	foreign := w.Apply(t, `
apiVersion: v1
kind: Service
metadata: {name: edge-istio, namespace: shop, labels: {gateway.networking.k8s.io/gateway-name: edge}}
spec: {selector: {app: theirs}, ports: [{port: 81}]}
`)[0]
	long := strings.Repeat("long-", 50) + "abc"
	plane.Start(t, w.deploying(t))
	w.Apply(t, deployed) // the first that there is
	w.Apply(t, strings.ReplaceAll(deployed, "name: edge,", "name: "+long+","))
	w.Apply(t, strings.ReplaceAll(deployed, "name: edge,", "name: 1.dots,"))
	has(t, w, "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways/edge", func(o *gatewayv1.Gateway) string {
		for _, c := range o.Status.Conditions {
			if c.Type == "Programmed" && strings.Contains(c.Message, "there is a Service edge-istio already") {
				return ""
			}
		}
		return fmt.Sprint("it does not say that its name is taken: ", o.Status.Conditions)
	})
	for name, label := range map[string]string{long: long[:54] + "-", "1.dots": "1.dots"} {
		rig.Eventually(t, func() error {
			o, err := w.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/shop/services", "", nil)
			if err != nil {
				return err
			}
			for _, item := range o["items"].([]any) {
				meta := item.(map[string]any)["metadata"].(map[string]any)
				labels, _ := meta["labels"].(map[string]any)
				if is, _ := labels["gateway.networking.k8s.io/gateway-name"].(string); strings.HasPrefix(is, label) {
					return nil
				}
			}
			return errors.New("there is no Service of Gateway " + name)
		})
	}
	is := has(t, w, "/api/v1/namespaces/shop/services/edge-istio", func(*corev1.Service) string { return "" })
	if is.ResourceVersion != foreign.Meta("resourceVersion") {
		t.Errorf("the Service of another owner was written")
	}
	w.Delete(t, `{apiVersion: v1, kind: Service, metadata: {name: edge-istio, namespace: shop}}`)
	w.addresses(t, "edge", "AddressNotAssigned", "")
}
