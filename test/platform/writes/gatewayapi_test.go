package writes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/rig"
)

const (
	gateways = "/apis/gateway.networking.k8s.io/v1/namespaces/istio-system/gateways/edge"
	routes   = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web"
	listens  = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  gatewayClassName: mesh
  listeners: [{name: web, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
`
	class = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: mesh}
spec: {controllerName: istio.io/gateway-controller}
`
	route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{name: edge, namespace: istio-system}]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: web.example.com, port: 80}]}]
`
	// foreign is the status of another controller, which did not know the newest version either.
	foreign = `{"status": {"parents": [{"parentRef": {"name": "edge", "namespace": "istio-system"}, "controllerName": "example.com/other",
"conditions": [{"type": "Accepted", "status": "False", "reason": "No", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}]}]}}`
)

func said(all []metav1.Condition, generation int64) string {
	var out []string
	for _, c := range all {
		text := c.Type + "=" + string(c.Status) + " " + c.Reason
		if c.ObservedGeneration != generation {
			text += fmt.Sprintf(" of %d", c.ObservedGeneration-generation)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// gateway waits until the status of the Gateway and of its listener say something.
func (w world) gateway(t *testing.T, attached int32, want, listener string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var o gatewayv1.Gateway
		if err := w.get(t.Context(), gateways, &o); err != nil {
			return err
		}
		if len(o.Status.Listeners) != 1 {
			return errors.New("there is not one listener")
		}
		l := o.Status.Listeners[0]
		got, its := said(o.Status.Conditions, o.Generation), said(l.Conditions, o.Generation)
		if got != want || its != listener || l.AttachedRoutes != attached {
			return fmt.Errorf("it says %q, and of its listener with %d routes %q; want %q, %d, %q",
				got, l.AttachedRoutes, its, want, attached, listener)
		}
		return nil
	})
}

// parents waits until the status of the route says something of each parent, and returns the object's version.
func (w world) parents(t *testing.T, want ...string) (version string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var o gatewayv1.HTTPRoute
		if err := w.get(t.Context(), routes, &o); err != nil {
			return err
		}
		var got []string
		for _, p := range o.Status.Parents {
			got = append(got, string(p.ControllerName)+": "+said(p.Conditions, o.Generation))
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			return fmt.Errorf("it says %q, want %q", got, want)
		}
		version = o.ResourceVersion
		return nil
	})
	return version
}

// TestGatewayStatuses: the statuses of the Gateway API's objects say what became of them, beside those of other controllers. A Gateway is
// programmed once its proxies have acknowledged the newest version.
func TestGatewayStatuses(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.Define(t, "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
	w.Apply(t, class+"---"+listens+"---"+route)
	w.Patch(t, routes+"/status", foreign)
	plane.Start(t, w.options(t, nil, "leader", "system:masters"))
	const (
		ours     = "istio.io/gateway-controller: "
		theirs   = "example.com/other: Accepted=False No of -1"
		accepted = "Accepted=True Accepted, Conflicted=False NoConflicts, ResolvedRefs=True ResolvedRefs, "
	)
	w.gateway(t, 1, "Accepted=True Accepted, Programmed=False Pending", accepted+"Programmed=False Pending")
	w.parents(t, theirs, ours+"Accepted=True Accepted, ResolvedRefs=False BackendNotFound")
	w.Apply(t, host)
	w.parents(t, theirs, ours+"Accepted=True Accepted, ResolvedRefs=True ResolvedRefs")

	edge := func(name, ip string) plane.Proxy {
		return plane.Proxy{
			Name: name, Namespace: "istio-system", IP: ip, Type: "router",
			Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "edge"},
		}
	}
	// The proxy is connected to a control plane that does not write.
	other := plane.Start(t, w.options(t, nil, "other", "system:masters"))
	other.Connect(t, edge("edge-1", "10.0.0.7"))
	const programmed = "Accepted=True Accepted, Programmed=True Programmed"
	w.gateway(t, 1, programmed, accepted+"Programmed=True Programmed")
	var c gatewayv1.GatewayClass
	rig.Eventually(t, func() error {
		if err := w.get(t.Context(), "/apis/gateway.networking.k8s.io/v1/gatewayclasses/mesh", &c); err != nil {
			return err
		}
		if got := said(c.Status.Conditions, c.Generation); got != "Accepted=True Accepted" {
			return errors.New(got)
		}
		return nil
	})

	// A proxy that does not acknowledge: what was said of the version before stays, until it is late.
	release := other.Withhold(t, edge("edge-2", "10.0.0.8"), xdstype.ListenerURL)
	w.Apply(t, strings.ReplaceAll(listens, "port: 8080", "port: 8081"))
	w.gateway(t, 1, "Accepted=True Accepted, Programmed=True Programmed of -1", accepted+"Programmed=True Programmed of -1")
	w.gateway(t, 1, "Accepted=True Accepted, Programmed=False Pending", accepted+"Programmed=False Pending")
	release()
	w.gateway(t, 1, programmed, accepted+"Programmed=True Programmed")

	// Other changes write nothing.
	before := w.parents(t, theirs, ours+"Accepted=True Accepted, ResolvedRefs=True ResolvedRefs")
	w.Apply(t, web)
	w.live(t, rules+"web", "True", "Acknowledged")
	if after := w.parents(t, theirs, ours+"Accepted=True Accepted, ResolvedRefs=True ResolvedRefs"); after != before {
		t.Errorf("the route was written again: it was in version %s, and is in %s", before, after)
	}
	// If another controller removes our part of the status, it is written again.
	w.Patch(t, routes+"/status", foreign)
	w.parents(t, theirs, ours+"Accepted=True Accepted, ResolvedRefs=True ResolvedRefs")
	// One that does so again and again is not answered each time.
	undone := 0
	for over := time.Now().Add(6 * time.Second); time.Now().Before(over); <-time.After(20 * time.Millisecond) {
		var o gatewayv1.HTTPRoute
		if err := w.get(t.Context(), routes, &o); err != nil {
			t.Fatal(err)
		}
		if len(o.Status.Parents) == 2 {
			undone++
			w.Patch(t, routes+"/status", foreign)
		}
	}
	if undone < 2 || undone > 5 {
		t.Errorf("in six seconds another client undid the status %d times, want a few", undone)
	}
	w.Apply(t, strings.ReplaceAll(route, "name: edge,", "name: edge, sectionName: none,"))
	w.parents(t, "example.com/other: Accepted=False No of -2", ours+"Accepted=False NoMatchingParent, ResolvedRefs=True ResolvedRefs")
	w.gateway(t, 0, programmed, accepted+"Programmed=True Programmed")
	// Without the Gateway nothing is ours, and nothing is said any more.
	w.Delete(t, listens)
	w.parents(t, "example.com/other: Accepted=False No of -2")
}
