package attack

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// shared starts a control plane with a mesh configuration, a Service checkout and a Service cart of namespace shop.
func shared(t *testing.T, settings string, rows source.Rows) *plane.Plane {
	t.Helper()
	return sharedBy(t, plane.Options(), settings, rows)
}

func sharedBy(t *testing.T, opts app.Options, settings string, rows source.Rows) *plane.Plane {
	t.Helper()
	dir := rig.Folder(t)
	rig.Write(t, dir, "mesh.yaml", fmt.Appendf(nil, "defaultConfig: {proxyMetadata: {%s}}\n", settings))
	opts.MeshConfig = dir + "/mesh.yaml"
	p := plane.Start(t, opts)
	rows.Services = append(rows.Services,
		clusterService("shop", "checkout", mesh.Service{
			Addresses: []string{"10.96.0.4"}, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
		}),
		clusterService("shop", "cart", mesh.Service{
			Addresses: []string{"10.96.0.5"}, Ports: []mesh.Port{{Name: "tcp", Number: 6379, Protocol: mesh.TCP}},
		}))
	p.Source.Add(rows)
	p.Settle(t)
	return p
}

// clusterService is a Service of a cluster, which is younger than what attackers write.
func clusterService(namespace, name string, s mesh.Service) *mesh.Service {
	s.Key = mesh.ServiceKey{
		Host: mesh.FullHost(name, namespace, "cluster.local"), Namespace: namespace, Registry: mesh.RegistryOf("Kubernetes"), Object: name,
	}
	s.ExportTo = []string{"*"}
	s.Origin = mesh.ObjectRef{Kind: "Service", Namespace: namespace, Name: name}
	s.Created = 2_000_000_000
	return &s
}

func sidecarOf(t *testing.T, p *plane.Plane, namespace, ip string) *plane.Client {
	t.Helper()
	return p.Connect(t, plane.Proxy{Name: "web", Namespace: namespace, IP: ip, Secrets: true})
}

// mentions reports whether something of a type that a client holds holds a text; all of it, if name is empty.
func mentions(c *plane.Client, typ, name, text string) bool {
	return slices.ContainsFunc(c.Names(typ), func(n string) bool {
		body, _ := c.Body(typ, n)
		return (name == "" || n == name) && bytes.Contains(body, []byte(text))
	})
}

// said reports whether an object has a problem with a code.
func said(p *plane.Plane, code, kind, name string) bool {
	return slices.ContainsFunc(p.Discovery.Problems(), func(q mesh.Problem) bool {
		return q.Code == code && q.Object.Kind == kind && q.Object.Name == name
	})
}

const entry = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: evil, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {hosts: [%s], addresses: [%s], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{address: 10.66.6.6}],
  ports: [{name: a, number: %d, protocol: %s}]}
---`

// TestEntriesTakeNothingOfOthers: a ServiceEntry takes neither short names of another namespace's Service, nor its address, nor a
// port of all addresses, but from clients of its own namespace.
func TestEntriesTakeNothingOfOthers(t *testing.T) {
	p := shared(t, "", source.Rows{})
	var text strings.Builder
	for i, host := range []string{"checkout", "checkout.shop", "checkout.shop.svc", "pay.shop.svc.cluster.local"} {
		fmt.Fprintf(&text, entry, fmt.Sprintf("name%d", i), host, "", 80, "HTTP")
	}
	fmt.Fprintf(&text, entry, "address", "api.evil.example", `"10.96.0.5"`, 6379, "TCP")
	fmt.Fprintf(&text, entry, "port", "ssh.evil.example", "", 22, "TCP")
	fmt.Fprintf(&text, entry, "half", "half.evil.example", `"0.0.0.0/1"`, 23, "TCP")
	fmt.Fprintf(&text, entry, "honest", "www.evil.example", "", 80, "HTTP")
	p.Apply(t, "evil.yaml", text.String())
	shop, bank := sidecarOf(t, p, "shop", "10.0.0.1"), sidecarOf(t, p, "bank", "10.0.0.2")
	evil := sidecarOf(t, p, "evil", "10.0.0.3")
	for who, c := range map[string]*plane.Client{"shop": shop, "bank": bank} {
		for _, cluster := range []string{
			"outbound|80||checkout", "outbound|80||checkout.shop", "outbound|80||checkout.shop.svc",
			"outbound|80||pay.shop.svc.cluster.local",
		} {
			if slices.Contains(c.Names(ads.ClusterType), cluster) {
				t.Errorf("%s has %s", who, cluster)
			}
		}
		for _, host := range []string{"api", "ssh", "half"} {
			if mentions(c, ads.ListenerType, "", host+".evil.example") {
				t.Errorf("connections of %s go to %s.evil.example", who, host)
			}
		}
		if !mentions(c, ads.ListenerType, "10.96.0.5_6379", "cart.shop") ||
			!slices.Contains(c.Names(ads.ClusterType), "outbound|80||www.evil.example") {
			t.Errorf("%s lost what is honest: %v", who, c.Names(ads.ListenerType))
		}
	}
	if !slices.Contains(evil.Names(ads.ClusterType), "outbound|80||checkout.shop") ||
		!mentions(evil, ads.ListenerType, "", "ssh.evil.example") {
		t.Error("clients of its own namespace lost it")
	}
	for _, name := range []string{"name0", "name1", "name2", "name3", "address", "port"} {
		if !said(p, "OwnNamespaceOnly", "ServiceEntry", name) {
			t.Errorf("%s has no problem", name)
		}
	}
	if said(p, "OwnNamespaceOnly", "ServiceEntry", "honest") {
		t.Error("an honest entry has a problem")
	}
}

// TestPortsOfServicesWithoutAddress: a headless Service has the addresses of its pods, and an ExternalName no connections that do not name
// it, neither of other namespaces nor of its own.
func TestPortsOfServicesWithoutAddress(t *testing.T) {
	tcp := []mesh.Port{{Name: "tcp", Number: 2181, Protocol: mesh.TCP}}
	rows := source.Rows{Services: []*mesh.Service{
		clusterService("evil", "out", mesh.Service{
			Resolution: mesh.DNS, External: true, Ports: []mesh.Port{{Name: "tcp", Number: 6380, Protocol: mesh.TCP}},
		}),
	}}
	for namespace, ip := range map[string]string{"a": "10.1.0.1", "b": "10.1.0.2"} {
		s := clusterService(namespace, "zk", mesh.Service{Resolution: mesh.Passthrough, Ports: tcp})
		rows.Services = append(rows.Services, s)
		rows.Slices = append(rows.Slices, &mesh.Slice{Key: mesh.SliceKey{Service: s.Key, Name: "zk"}, Endpoints: []mesh.SliceEndpoint{
			{ID: "zk-0", Endpoint: mesh.Endpoint{Address: ip}},
		}})
	}
	p := shared(t, "", rows)
	for namespace, ip := range map[string]string{"bank": "10.0.0.2", "evil": "10.0.0.3", "a": "10.0.0.4"} {
		client := sidecarOf(t, p, namespace, ip)
		names := client.Names(ads.ListenerType)
		for _, gone := range []string{"0.0.0.0_2181", "0.0.0.0_6380"} {
			if slices.Contains(names, gone) {
				t.Errorf("a client of namespace %s has a listener %s", namespace, gone)
			}
		}
		if !mentions(client, ads.ListenerType, "10.1.0.1_2181", "zk.a.svc") ||
			!mentions(client, ads.ListenerType, "10.1.0.2_2181", "zk.b.svc") {
			t.Errorf("connections of namespace %s to pods are not led: %v", namespace, names)
		}
	}
	if !said(p, "NoAddress", "Service", "out") {
		t.Error("the ExternalName has no problem")
	}
	for _, problem := range p.Discovery.Problems() {
		if problem.Code == "PortTaken" {
			t.Error(problem)
		}
	}
}

const steal = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: %s, creationTimestamp: %q}
spec: {hosts: [%s], http: [{route: [{destination: {host: %s}}]}]}
---`

// TestRoutesOfOthers: if two VirtualServices are for the same Service, the one of the Service's namespace takes precedence. Without one,
// another namespace's VirtualService applies and both objects report it, unless the mesh is strict and the owner does not agree.
func TestRoutesOfOthers(t *testing.T) {
	const host, vhost = "checkout.shop.svc.cluster.local", "80/checkout.shop.svc.cluster.local:80"
	apply := func(p *plane.Plane, own bool) {
		text := fmt.Sprintf(entry, "sink", "www.evil.example", "", 80, "HTTP") +
			fmt.Sprintf(steal, "steal", "evil", "2020-01-01T00:00:00Z", host, "www.evil.example") +
			fmt.Sprintf(steal, "short", "evil", "2020-01-01T00:00:00Z", "checkout.shop", "www.evil.example")
		if own {
			text += fmt.Sprintf(steal, "own", "shop", "2024-01-01T00:00:00Z", host, host)
		}
		p.Apply(t, "rules.yaml", text)
	}
	stolen := func(c *plane.Client) bool { return mentions(c, ads.VirtualHostType, vhost, "www.evil.example") }
	p := shared(t, "", source.Rows{})
	apply(p, true)
	shop, bank := sidecarOf(t, p, "shop", "10.0.0.1"), sidecarOf(t, p, "bank", "10.0.0.2")
	if stolen(shop) || stolen(bank) {
		t.Error("an older rule of another namespace goes before the owner's")
	}
	if slices.Contains(bank.Names(ads.VirtualHostType), "80/checkout.shop:80") {
		t.Error("a short name is taken")
	}
	p.Delete(t, config.VirtualService, "shop", "own")
	again := sidecarOf(t, p, "other", "10.0.0.4")
	if !stolen(again) || !said(p, "ForeignRule", "VirtualService", "steal") || !said(p, "ForeignRule", "Service", "checkout") {
		t.Error("by default it decides, and both objects say so")
	}
	strict := shared(t, "FAIRWAY_OWNERSHIP: strict", source.Rows{})
	apply(strict, false)
	if stolen(sidecarOf(t, strict, "bank", "10.0.0.2")) || !said(strict, "ForeignRule", "VirtualService", "steal") {
		t.Error("strict: it decides, or does not say so")
	}
	if !stolen(sidecarOf(t, strict, "evil", "10.0.0.3")) {
		t.Error("strict: it does not hold for its own clients")
	}
	agreed := clusterService("shop", "checkout", mesh.Service{
		Addresses: []string{"10.96.0.4"}, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}, RulesFrom: []string{"evil"},
	})
	strict.Source.Add(source.Rows{Services: []*mesh.Service{agreed}})
	strict.Settle(t)
	if !stolen(sidecarOf(t, strict, "other", "10.0.0.4")) {
		t.Error("strict: the owner agrees, and it does not decide")
	}
}

const foreignGateways = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: own, namespace: shop, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*.shop.example"]}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: steal, namespace: evil, creationTimestamp: "2020-01-01T00:00:00Z"}
spec:
  selector: {istio: edge}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [pay.shop.example]}
  - port: {number: 443, name: files, protocol: HTTPS}
    hosts: [files.example]
    tls: {mode: SIMPLE, serverCertificate: /etc/own.pem, privateKey: /etc/own.key}
  - port: {number: 8443, name: secret, protocol: HTTPS}
    hosts: [secret.example]
    tls: {mode: SIMPLE, credentialName: web}
---
`

// TestGatewaysOfOthers: a Gateway of another namespace uses neither files nor Secrets of a shared gateway, unless MeshConfig names its
// namespace. If its host is below another namespace's, both Gateways report it; a strict mesh leaves the Gateway out.
func TestGatewaysOfOthers(t *testing.T) {
	chain, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	indent := func(text []byte) string { return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") }
	rules := foreignGateways + fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: web, namespace: infra}\n"+
		"type: kubernetes.io/tls\n"+
		"stringData:\n  tls.crt: |\n    %s\n  tls.key: |\n    %s\n", indent(chain), indent(key))
	for settings, want := range map[string][]string{
		"":                                 {"0.0.0.0_80"},
		"FAIRWAY_GATEWAY_NAMESPACES: evil": {"0.0.0.0_443", "0.0.0.0_80", "0.0.0.0_8443"},
		"FAIRWAY_OWNERSHIP: strict":        nil,
		"FAIRWAY_OWNERSHIP: strict, FAIRWAY_GATEWAY_NAMESPACES: shop": {"0.0.0.0_80"},
	} {
		p := shared(t, settings, source.Rows{})
		p.Apply(t, "gateways.yaml", rules)
		honest := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: infra, namespace: infra}\n" +
			"spec: {selector: {istio: edge}, servers: [{port: {number: 9000, name: http, protocol: HTTP}, hosts: [infra.example]}]}\n"
		p.Apply(t, "infra.yaml", honest)
		edge := p.Connect(t, plane.Proxy{
			Type: "router", Name: "edge", Namespace: "infra", IP: "10.0.0.5", Labels: map[string]string{"istio": "edge"}, Secrets: true,
		})
		want = append(slices.Clone(want), "0.0.0.0_9000")
		if got := edge.Names(ads.ListenerType); !slices.Equal(got, want) {
			t.Errorf("%q: the gateway has %v, want %v", settings, got, want)
		}
		if settings == "" && (!said(p, "NotGranted", "Gateway", "steal") || !said(p, "ForeignRule", "Gateway", "steal") ||
			!said(p, "ForeignRule", "Gateway", "own")) {
			t.Errorf("problems are missing: %v", p.Discovery.Problems())
		}
	}
}

// TestNetworkGatewaysOfOthers: a Service with the label of a network leads into it only from namespaces that may have such.
func TestNetworkGatewaysOfOthers(t *testing.T) {
	gate := func(namespace, ip string) *mesh.Service {
		return clusterService(namespace, "gate", mesh.Service{
			Addresses: []string{"10.96.1.1"}, Outside: []string{ip}, Network: "far",
			Ports: []mesh.Port{{Name: "tls", Number: 15443, Protocol: mesh.TLS}},
		})
	}
	far := clusterService("shop", "far", mesh.Service{
		Addresses: []string{"10.96.0.9"}, Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
	})
	for settings, want := range map[string][]string{
		"": {"203.0.113.10:15443"},
		"FAIRWAY_NETWORK_GATEWAY_NAMESPACES: evil": {"203.0.113.10:15443", "203.0.113.66:15443"},
	} {
		p := shared(t, settings, source.Rows{
			Services: []*mesh.Service{gate("istio-system", "203.0.113.10"), gate("evil", "203.0.113.66"), far},
			Slices: []*mesh.Slice{{Key: mesh.SliceKey{Service: far.Key, Name: "far"}, Endpoints: []mesh.SliceEndpoint{
				{ID: "far-0", Endpoint: mesh.Endpoint{Address: "10.7.0.1", Network: "far", MTLS: true}},
			}}},
		})
		c := p.Connect(t, plane.Proxy{
			Name: "web", Namespace: "bank", IP: "10.0.0.2", Secrets: true, Labels: map[string]string{"topology.istio.io/network": "near"},
		})
		got, err := c.Endpoints("outbound|80||far.shop.svc.cluster.local")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: the network is entered by %v, want %v (%v)", settings, got, want, err)
		}
		if said(p, "NotGranted", "Service", "gate") != (settings == "") {
			t.Errorf("%q: problems %v", settings, p.Discovery.Problems())
		}
	}
}
