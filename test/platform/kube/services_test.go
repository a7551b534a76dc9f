package kube_test

import (
	"fmt"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// A machine that is declared beside the pods serves the Service whose selector it matches, as long as it does.
func TestServiceSelectsWorkloadEntries(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, shop+"---"+pod(1, true))
	s := connect(t, plane.Start(t, options(t, c, nil)), plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	s.reaches(t, webCluster, "10.3.0.2:8080")
	const machine = `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm, namespace: shop}
spec: {address: 10.9.0.1, labels: {app: web}}
`
	c.Apply(t, machine)
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.9.0.1:8080")
	c.Apply(t, strings.ReplaceAll(machine, "labels:", "ports: {http: 9000}, labels:"))
	s.reaches(t, webCluster, "10.3.0.2:8080", "10.9.0.1:9000")
	c.Apply(t, strings.ReplaceAll(strings.ReplaceAll(machine, "app: web", "app: other"), "vm", "second"))
	c.Patch(t, "/api/v1/namespaces/shop/services/web", `{"spec":{"ports":[{"name":"http","port":80,"targetPort":"serve"}]}}`)
	c.Apply(t, strings.ReplaceAll(machine, "labels:", "ports: {serve: 9001}, labels:"))
	s.reaches(t, webCluster, "10.9.0.1:9001") // the pod has no port of that name
	c.Delete(t, machine)
	s.reaches(t, webCluster)
}

// Clients of a Service that prefers the same node use the pods of their own node first.
func TestPreferSameNode(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	there := strings.ReplaceAll(pod(2, true), "nodeName: n1", "nodeName: n2")
	// The proxy does not say in which region and zone it is, so the machines are in none.
	nowhere := strings.ReplaceAll(shop, ", labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}", "")
	first := nowhere[strings.Index(nowhere, "apiVersion: v1\nkind: Node"):strings.LastIndex(nowhere, "---")]
	node := strings.ReplaceAll(first, "name: n1", "name: n2")
	c.Apply(t, nowhere+"---"+node+"---"+pod(1, true)+"---"+there)
	c.Patch(t, "/api/v1/namespaces/shop/services/web", fmt.Sprintf(
		`{"metadata":{"annotations":{"networking.istio.io/traffic-distribution":%q}}}`, "PreferSameNode"))
	o := options(t, c, nil)
	o.ClusterID = "Kubernetes" // as the proxy says
	s := connect(t, plane.Start(t, o), plane.Proxy{Name: "web-2", IP: "10.3.0.3"})
	rig.Eventually(t, func() error {
		var load endpointv3.ClusterLoadAssignment
		body, _ := s.Body(xdstype.EndpointURL, webCluster)
		if err := proto.Unmarshal(body, &load); err != nil {
			return err
		}
		got := ""
		for _, l := range load.GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				got += fmt.Sprintf(" %d %s", l.Priority, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
			}
		}
		if want := " 0 10.3.0.3 1 10.3.0.2"; got != want {
			return fmt.Errorf("there are%s, want%s", got, want)
		}
		return nil
	})
}
