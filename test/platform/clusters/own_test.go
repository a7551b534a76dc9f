package clusters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// service is a Service with an address of its own, and one pod.
func service(namespace, name, port, address, pod string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterIP: %[4]s, selector: {app: %[2]s}, ports: [%[3]s]}
---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {app: %[2]s}}
spec: {nodeName: n1, containers: [{name: web, image: web}]}
status: {phase: Running, podIP: %[5]s, podIPs: [{ip: %[5]s}], conditions: [{type: Ready, status: "True"}]}
`, namespace, name, port, address, pod)
}

const (
	httpPort = "{name: http, port: 80}"
	tcpPort  = "{name: tcp, port: 3306}"
)

// of is a proxy of a cluster.
func of(t *testing.T, p *plane.Plane, clusterID, ip string) *sidecar {
	t.Helper()
	return in(t, p, clusterID, ip, nil)
}

// in is of, and says which locality it is in.
func in(t *testing.T, p *plane.Plane, clusterID, ip string, at *corev3.Locality) *sidecar {
	t.Helper()
	node := plane.Proxy{Name: "client-" + clusterID, IP: ip}.Node()
	node.Locality = at
	node.Metadata.Fields["CLUSTER_ID"] = structpb.NewStringValue(clusterID)
	s := &sidecar{Client: ads.New(node, ads.NewReader(), func(ads.Event) {})}
	s.Bodies = true
	if err := s.Connect(t.Context(), p.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Disconnect)
	return s
}

// knows waits until the proxy knows web by an address, and where connections to an address and port 3306 go.
func (s *sidecar) knows(t *testing.T, address string, connections map[string]string) {
	t.Helper()
	rig.Eventually(t, func() error {
		var host routev3.VirtualHost
		body, _ := s.Body(xdstype.VirtualHostURL, "80/web.shop.svc.cluster.local:80")
		if err := proto.Unmarshal(body, &host); err != nil {
			return err
		}
		var known []string
		for _, d := range host.Domains {
			if strings.HasPrefix(d, "10.") {
				known = append(known, d)
			}
		}
		if !slices.Equal(known, []string{address}) {
			return fmt.Errorf("web is known by %v, want %s", known, address)
		}
		for at, to := range connections {
			body, has := s.Body(xdstype.ListenerURL, at+"_3306")
			if to == "" && has || to != "" && !strings.Contains(string(body), "outbound|3306||"+to+".shop.svc.cluster.local") {
				return fmt.Errorf("connections to %s do not go to %q", at, to)
			}
		}
		return nil
	})
}

// Proxies know Services by the addresses of their own cluster, even if another cluster gives an address to another Service. Endpoints of
// cluster-local Services are used in their own cluster alone, as the current mesh configuration says.
func TestOfTheOwnCluster(t *testing.T) {
	t.Parallel()
	east, west := cluster.Start(t), cluster.Start(t)
	for at, c := range map[string]*cluster.Cluster{"1": east, "2": west} {
		c.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n"+
			"{apiVersion: v1, kind: Namespace, metadata: {name: istio-system}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}")
		c.Apply(t, service("shop", "web", httpPort, "10.250.1."+at, "10.3.1."+at))
		c.Apply(t, service("shop", "db", tcpPort, "10.250.2."+at, "10.3.2."+at))
		c.Apply(t, service("kube-system", "web", httpPort, "10.250.3."+at, "10.3.3."+at))
	}
	east.Apply(t, service("shop", "here", tcpPort, "10.250.9.9", "10.3.4.1"))
	west.Apply(t, service("shop", "there", tcpPort, "10.250.9.9", "10.3.4.2"))
	east.Apply(t, remote("west", read(t, west.Kubeconfig(t, nil, "reader", "system:masters"))))
	p := plane.Start(t, options(t, east))
	e, w, other := of(t, p, "east", "10.3.9.1"), of(t, p, "west", "10.3.9.2"), of(t, p, "south", "10.3.9.3")
	e.knows(t, "10.250.1.1", map[string]string{"10.250.2.1": "db", "10.250.2.2": "", "10.250.9.9": "here"})
	w.knows(t, "10.250.1.2", map[string]string{"10.250.2.2": "db", "10.250.2.1": "", "10.250.9.9": "there"})
	other.knows(t, "10.250.1.1", map[string]string{"10.250.2.1": "db", "10.250.2.2": ""})

	const system = "outbound|80||web.kube-system.svc.cluster.local"
	e.leads(t, system, "10.3.3.1")
	w.leads(t, system, "10.3.3.2")
	e.leads(t, web, "10.3.1.1", "10.3.1.2")
	settings := func(text string) {
		east.Apply(t, fmt.Sprintf(
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata: {mesh: %q}\n", text))
	}
	settings("serviceSettings: [{settings: {clusterLocal: true}, hosts: ['*.shop.svc.cluster.local']}," +
		" {hosts: ['*.kube-system.svc.cluster.local']}]")
	e.leads(t, system, "10.3.3.1", "10.3.3.2")
	w.leads(t, system, "10.3.3.1", "10.3.3.2")
	e.leads(t, web, "10.3.1.1")
	w.leads(t, web, "10.3.1.2")
	settings("{}")
	w.leads(t, system, "10.3.3.2")
	w.leads(t, web, "10.3.1.1", "10.3.1.2")

	east.Delete(t, service("shop", "web", httpPort, "10.250.1.1", "10.3.1.1"))
	e.knows(t, "10.250.1.2", nil) // none of its own any more
}
