package clusters_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// uses waits until a proxy uses endpoints of web with these priorities and zones: "0 zone-a" by address.
func (s *sidecar) uses(t *testing.T, want map[string]string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var load endpointv3.ClusterLoadAssignment
		body, _ := s.Body(xdstype.EndpointURL, web)
		if err := proto.Unmarshal(body, &load); err != nil {
			return err
		}
		got := map[string]string{}
		for _, l := range load.GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				address := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
				got[address] = fmt.Sprint(l.GetPriority(), " ", l.GetLocality().GetZone())
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("it uses %v, want %v", got, want)
		}
		return nil
	})
}

// Nodes of one name in two clusters are two: endpoints have the zone of their own, and clients that prefer their own Node, or use it
// alone, do not take the other cluster's for it.
func TestNodesOfOneName(t *testing.T) {
	t.Parallel()
	east, west := cluster.Start(t), cluster.Start(t)
	for name, c := range map[string]*cluster.Cluster{"east": east, "west": west} {
		at := map[string]string{"east": "3", "west": "4"}[name]
		c.Apply(t, strings.NewReplacer("CLUSTER", name, "AT", at).Replace(`
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: istio-system}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: CLUSTER-1}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: CLUSTER-2}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, trafficDistribution: PreferSameNode, ports: [{name: http, port: 80, targetPort: 8080}]}
`))
		for i, pod := range []struct{ namespace, name, node, app string }{
			{"shop", "web-1", "n1", "web"}, {"shop", "web-2", "n2", "web"}, {"shop", "client-" + name, "n1", "client"},
		} {
			c.Apply(t, strings.NewReplacer("NAMESPACE", pod.namespace, "NAME", pod.name, "NODE", pod.node, "APP", pod.app,
				"WHERE", fmt.Sprintf("10.%s.0.%d", at, i+1)).Replace(`
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NAMESPACE, labels: {app: APP}}
spec: {nodeName: NODE, containers: [{name: web, image: web}]}
status: {phase: Running, podIP: WHERE, podIPs: [{ip: WHERE}], conditions: [{type: Ready, status: "True"}]}
`))
		}
	}
	east.Apply(t, remote("west", read(t, west.Kubeconfig(t, nil, "reader", "system:masters"))))
	p := plane.Start(t, options(t, east))
	e, w := in(t, p, "east", "10.3.0.3", nil), in(t, p, "west", "10.4.0.3", nil) // where they are, their Nodes say
	e.uses(t, map[string]string{"10.3.0.1": "0 east-1", "10.3.0.2": "1 east-2", "10.4.0.1": "1 west-1", "10.4.0.2": "1 west-2"})
	w.uses(t, map[string]string{"10.3.0.1": "1 east-1", "10.3.0.2": "1 east-2", "10.4.0.1": "0 west-1", "10.4.0.2": "1 west-2"})

	for _, c := range []*cluster.Cluster{east, west} {
		c.Patch(t, "/api/v1/namespaces/shop/services/web", `{"spec":{"internalTrafficPolicy":"Local","trafficDistribution":null}}`)
	}
	e.uses(t, map[string]string{"10.3.0.1": "0 east-1"})
	w.uses(t, map[string]string{"10.4.0.1": "0 west-1"})

	east.Delete(t, "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop}}")
	e.uses(t, map[string]string{}) // no endpoint there: the Node of that name in the other cluster is another one
	w.uses(t, map[string]string{"10.4.0.1": "0 west-1"})
}
