package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// A machine with a WorkloadEntry beside the pods serves the Service with a matching selector, for as long as it matches.
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
	// The proxy does not name its region and zone, so the machines have none.
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

// A pod of two families is one endpoint of a Service of both, by both addresses; a Service of one family has it by that alone.
func TestTwoFamilies(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	both := strings.Replace(pod(1, true), "podIPs: [{ip: 10.3.0.2}]", `podIPs: [{ip: 10.3.0.2}, {ip: "fd00:3::2"}]`, 1)
	const dual = `
apiVersion: v1
kind: Service
metadata: {name: both, namespace: shop}
spec: {selector: {app: web}, ipFamilyPolicy: RequireDualStack, ports: [{name: http, port: 80, targetPort: 8080}]}
`
	services := c.Apply(t, shop+"---"+both+"---"+pod(2, true)+"---"+dual)
	p := plane.Start(t, options(t, c, nil))
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	leads := func(cluster, want string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var load endpointv3.ClusterLoadAssignment
			body, _ := s.Body(xdstype.EndpointURL, cluster)
			if err := proto.Unmarshal(body, &load); err != nil {
				return err
			}
			if got := addresses(&load); got != want {
				return fmt.Errorf("%s leads to %q, want %q", cluster, got, want)
			}
			return nil
		})
	}
	const ofBoth = "outbound|80||both.shop.svc.cluster.local"
	leads(webCluster, "10.3.0.2 10.3.0.3")
	leads(ofBoth, "10.3.0.2|fd00:3::2 10.3.0.3")
	var host routev3.VirtualHost
	body, _ := s.Body(xdstype.VirtualHostURL, "80/both.shop.svc.cluster.local:80")
	if err := proto.Unmarshal(body, &host); err != nil {
		t.Fatal(err)
	}
	ips, _ := services[len(services)-1]["spec"].(map[string]any)["clusterIPs"].([]any)
	for _, ip := range ips {
		name := fmt.Sprint(ip)
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		if !slices.Contains(host.Domains, name) {
			t.Errorf("requests to %s are not the Service's: %v", name, host.Domains)
		}
	}
	if len(ips) != 2 {
		t.Errorf("the Service has the addresses %v", ips)
	}
	c.Patch(t, "/api/v1/namespaces/shop/services/both", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
	leads(ofBoth, "10.3.0.2 10.3.0.3")
}

// addresses are an assignment's, further ones of an endpoint behind the first.
func addresses(load *endpointv3.ClusterLoadAssignment) string {
	var out []string
	for _, l := range load.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			text := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
			for _, also := range e.GetEndpoint().GetAdditionalAddresses() {
				text += "|" + also.GetAddress().GetSocketAddress().GetAddress()
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

// An east-west gateway of type NodePort is entered by the Nodes that it selects; with externalTrafficPolicy Local by those that
// run it.
func TestGatewayOnNodes(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	const gateway = `
apiVersion: v1
kind: Service
metadata:
  name: eastwest
  namespace: istio-system
  labels: {topology.istio.io/network: net1}
  annotations: {traffic.istio.io/nodeSelector: '{"role": "edge"}'}
spec: {type: NodePort, selector: {app: gw}, ports: [{name: tls, port: 15443, nodePort: 31443}]}
`
	node := func(name, address, role string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {role: %s}}
status: {addresses: [{type: InternalIP, address: 10.9.0.1}, {type: ExternalIP, address: %s}]}
`, name, role, address)
	}
	at := strings.NewReplacer("web-1", "gw-1", "namespace: shop", "namespace: istio-system", "app: web", "app: gw",
		"nodeName: n1", "nodeName: edge-2", "10.3.0.1", "10.3.0.9").Replace(webPod)
	c.Apply(t, shop+"---"+pod(1, true)+"---"+gateway+"---"+node("edge-1", "192.0.2.1", "edge")+"---"+
		node("edge-2", "192.0.2.2", "edge")+"---"+node("inner", "192.0.2.3", "inner")+"---"+at)
	c.Patch(t, "/api/v1/namespaces/shop/pods/web-1", `{"metadata":{"labels":{"security.istio.io/tlsMode":"istio"}}}`)
	c.Apply(t, strings.NewReplacer("web-1", "far", "app: web", "app: far, topology.istio.io/network: net2", "10.3.0.1", "10.8.0.1").
		Replace(webPod))
	o := options(t, c, nil)
	o.ClusterID = "Kubernetes" // as the proxy says
	s := connect(t, plane.Start(t, o), plane.Proxy{Name: "far", IP: "10.8.0.1"})
	s.reaches(t, webCluster, "192.0.2.1:31443", "192.0.2.2:31443")
	const path = "/api/v1/namespaces/istio-system/services/eastwest"
	c.Patch(t, path, `{"spec":{"externalTrafficPolicy":"Local"}}`)
	s.reaches(t, webCluster, "192.0.2.2:31443")
	c.Patch(t, path, `{"spec":{"externalTrafficPolicy":"Cluster"}}`)
	c.Patch(t, "/api/v1/nodes/edge-2", `{"metadata":{"labels":{"role":"inner"}}}`)
	s.reaches(t, webCluster, "192.0.2.1:31443")
}
