package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy/names"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

const sorts = `
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: shop}
spec: {selector: {app: web}, clusterIP: None, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: early, namespace: shop}
spec: {selector: {app: web}, publishNotReadyAddresses: true, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: own, namespace: shop, annotations: {networking.istio.io/exportTo: "."}}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: spoken, namespace: shop}
spec:
  selector: {app: web}
  sessionAffinity: ClientIP
  ports: [{name: odd, port: 80, targetPort: 8080, appProtocol: kubernetes.io/h2c}, {name: plain, port: 81, targetPort: 8080, appProtocol: http}]
---
apiVersion: v1
kind: Service
metadata: {name: written, namespace: shop}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: written-x, namespace: shop, labels: {kubernetes.io/service-name: written}}
addressType: IPv4
ports: [{name: http, port: 9090}]
endpoints: [{addresses: [10.7.0.1], conditions: {ready: true}}, {addresses: [10.7.0.2], conditions: {ready: false, serving: true, terminating: true}}]
`

// Services of all kinds come out as intended: headless ones, Services of pods that are not ready, Services of one namespace alone, with
// protocols of their own, and without a selector.
func TestSortsOfServices(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+"---"+pod(1, true)+"---"+pod(2, false)+"---"+sorts)
	p := plane.Start(t, options(t, c, nil))
	s := connect(t, p, plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	of := func(name string) string { return "outbound|80||" + name + ".shop.svc.cluster.local" }
	s.reaches(t, webCluster, "10.3.0.2:8080")
	s.reaches(t, of("early"), "10.3.0.2:8080", "10.3.0.3:8080")
	s.reaches(t, of("own"), "10.3.0.2:8080")
	rig.Eventually(t, func() error { // one that terminates and still serves is drained
		var load endpointv3.ClusterLoadAssignment
		body, _ := s.Body(xdstype.EndpointURL, of("written"))
		if err := proto.Unmarshal(body, &load); err != nil {
			return err
		}
		got := ""
		for _, l := range load.GetEndpoints() {
			for _, e := range l.GetLbEndpoints() {
				got += fmt.Sprint(" ", e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress(), " ", e.GetHealthStatus())
			}
		}
		if want := " 10.7.0.1 HEALTHY 10.7.0.2 DRAINING"; got != want {
			return fmt.Errorf("there are%s, want%s", got, want)
		}
		return nil
	})
	says := func(name, want string, not ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var o clusterv3.Cluster
			body, has := s.Body(xdstype.ClusterURL, name)
			if err := proto.Unmarshal(body, &o); err != nil || !has {
				return fmt.Errorf("there is no %s: %v", name, err)
			}
			text, err := protojson.Marshal(&o)
			is := strings.ReplaceAll(string(text), " ", "")
			wrong := slices.ContainsFunc(not, func(n string) bool { return strings.Contains(is, n) })
			if err == nil && (wrong || !strings.Contains(is, want)) {
				err = fmt.Errorf("%s: want %s and not %v in %s", name, want, not, is)
			}
			return err
		})
	}
	says(of("peers"), `"type":"ORIGINAL_DST"`)
	says(of("spoken"), `"http2ProtocolOptions"`, "HASH")
	says("outbound|81||spoken.shop.svc.cluster.local", `"type":"EDS"`, "HASH")
	elsewhere := connect(t, p, plane.Proxy{Name: "other-1", Namespace: "other", IP: "10.3.9.9"})
	if names := elsewhere.Names(xdstype.ClusterURL); slices.Contains(names, of("own")) || !slices.Contains(names, of("early")) {
		t.Errorf("another namespace has %v", names)
	}
	c.Patch(t, "/api/v1/namespaces/shop/services/own", `{"metadata":{"annotations":{"networking.istio.io/exportTo":"*"}}}`)
	elsewhere.reaches(t, of("own"), "10.3.0.2:8080")
}

// The labels of Nodes say where clients and endpoints are: a DestinationRule's distribution follows them, and their changes.
func TestDistributionByNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Define(t, "destinationrules.networking.istio.io")
	const more = `
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z2}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec:
  host: web
  trafficPolicy:
    loadBalancer: {localityLbSetting: {distribute: [{from: r1/z1/*, to: {"r1/z1/*": 80, "r1/z2/*": 20}}]}}
    outlierDetection: {consecutive5xxErrors: 5}
`
	c.Apply(t, shop+"---"+more+"---"+pod(1, true)+"---"+strings.ReplaceAll(pod(2, true), "nodeName: n1", "nodeName: n2"))
	o := options(t, c, nil)
	o.ClusterID = "Kubernetes" // as the proxy says
	s := connect(t, plane.Start(t, o), plane.Proxy{Name: "web-1", IP: "10.3.0.2"})
	weighs := func(want ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var load endpointv3.ClusterLoadAssignment
			body, _ := s.Body(xdstype.EndpointURL, webCluster)
			if err := proto.Unmarshal(body, &load); err != nil {
				return err
			}
			var got []string
			all := uint32(0)
			for _, l := range load.GetEndpoints() {
				all += l.GetLoadBalancingWeight().GetValue()
			}
			for _, l := range load.GetEndpoints() {
				share := l.GetLoadBalancingWeight().GetValue() * 100 / max(all, 1)
				got = append(got, fmt.Sprintf("%s/%s %d %d %%", l.GetLocality().GetRegion(), l.GetLocality().GetZone(), l.Priority, share))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("there are %q, want %q", got, want)
			}
			return nil
		})
	}
	weighs("r1/z1 0 80 %", "r1/z2 0 20 %")
	c.Patch(t, "/api/v1/nodes/n2", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"z1"}}}`)
	weighs("r1/z1 0 100 %")
	c.Patch(t, "/api/v1/nodes/n2", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"z2"}}}`)
	weighs("r1/z1 0 80 %", "r1/z2 0 20 %")
}

const paths = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: paths, namespace: shop}
spec:
  ingressClassName: mesh
  defaultBackend: {service: {name: web, port: {number: 80}}}
  rules:
  - host: "*.shop.example.com"
    http:
      paths:
      - {path: /exact, pathType: Exact, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /prefix, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}
      - {path: "/own", pathType: ImplementationSpecific, backend: {service: {name: web, port: {number: 80}}}}
`

// An Ingress of the API server with every type of path, a wildcard and a default backend is carried out.
func TestIngressPaths(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Apply(t, shop+"---"+webPod+"---"+class+"---"+paths)
	g := connect(t, plane.Start(t, options(t, c, nil)), plane.Proxy{
		Name: "edge-1", Namespace: "istio-system", Type: "router", Labels: map[string]string{"istio": "ingressgateway"},
	})
	for _, want := range []string{`"*.shop.example.com"`, `"path":"/exact"`, `"pathSeparatedPrefix":"/prefix"`, `/own`, `"domains":["*"]`} {
		g.said(t, want)
	}
	g.reaches(t, webCluster, "10.3.0.1:8080")
	c.Patch(t, "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/paths", `{"spec":{"rules":null}}`)
	g.said(t, `"domains":["*"]`)
	rig.Eventually(t, func() error {
		for _, name := range g.Names(xdstype.VirtualHostURL) {
			if strings.Contains(name, "shop.example.com") {
				return fmt.Errorf("there is %s still", name)
			}
		}
		return nil
	})
}

// Pods as the controller of StatefulSets makes them have names of their own below the headless Service that governs them: they
// are routed, and resolved by agents, to each pod that is ready.
func TestStatefulSets(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop+`---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {selector: {app: db}, clusterIP: None, ports: [{name: http, port: 8080}]}
`)
	p := plane.Start(t, options(t, c, nil))
	s := newSidecar(plane.Proxy{Name: "web-1", IP: "10.3.0.2", Tables: true}, func(ads.Event) {})
	s.Tables = true
	if err := s.Client.Connect(t.Context(), p.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Disconnect)
	resolves := func(want ...string) {
		t.Helper()
		rig.Eventually(t, func() error {
			var got []string
			for _, name := range s.Names(xdstype.NameTableURL) {
				body, _ := s.Body(xdstype.NameTableURL, name)
				entries, err := names.Decode(body)
				if err != nil {
					return err
				}
				for _, e := range entries {
					if strings.Contains(e.Host, "db.shop") {
						got = append(got, e.Host+" "+strings.Join(e.IPs, ","))
					}
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("there are %q, want %q", got, want)
			}
			return nil
		})
	}
	runs := func(pod, ip, ready string) {
		t.Helper()
		c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: shop, labels: {app: db, statefulset.kubernetes.io/pod-name: %[1]s}}
spec: {hostname: %[1]s, subdomain: db, nodeName: n1, containers: [{name: db, image: db}]}
status: {phase: Running, podIP: %[2]s, podIPs: [{ip: %[2]s}], conditions: [{type: Ready, status: %[3]q}]}
`, pod, ip, ready))
	}
	runs("db-0", "10.3.7.1", "True")
	runs("db-1", "10.3.7.2", "True")
	resolves("db-0.db.shop.svc.cluster.local 10.3.7.1", "db-1.db.shop.svc.cluster.local 10.3.7.2",
		"db.shop.svc.cluster.local 10.3.7.1,10.3.7.2")
	s.said(t, `"*.db.shop.svc.cluster.local"`)
	runs("db-0", "10.3.7.1", "False")
	resolves("db-1.db.shop.svc.cluster.local 10.3.7.2", "db.shop.svc.cluster.local 10.3.7.2")
}
