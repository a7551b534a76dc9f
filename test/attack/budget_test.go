package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// items joins n texts, each made by its number.
func items(n int, separator, pattern string) string {
	var out strings.Builder
	for i := range n {
		if i > 0 {
			out.WriteString(separator)
		}
		fmt.Fprintf(&out, pattern, i)
	}
	return out.String()
}

func objectText(kind, group, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: evil}\nspec: %s\n---\n", group, kind, name, spec)
}

const networkingGroup = "networking.istio.io/v1"

func hostileEntry(name string, hosts, ports, endpoints int) string {
	at := items(endpoints, ", ", "{address: 10.1.0.0, labels: {n: \"%d\"}}")
	return objectText("ServiceEntry", networkingGroup, name, fmt.Sprintf("{hosts: [%s], ports: [%s], resolution: STATIC, endpoints: [%s]}",
		items(hosts, ", ", "h%d."+name+".evil.example"), items(ports, ", ", "{number: 1%03d, name: http-%[1]d, protocol: HTTP}"), at))
}

func hostileDelegates(name string, delegates, routes int) string {
	return objectText("VirtualService", networkingGroup, name, fmt.Sprintf("{hosts: [%s.evil.example], http: [%s]}", name,
		items(delegates, ", ", "{match: [{uri: {prefix: /r%d}}], delegate: {name: "+name+"-leaf}}"))) +
		objectText("VirtualService", networkingGroup, name+"-leaf", fmt.Sprintf("{http: [%s]}",
			items(routes, ", ", "{match: [{headers: {x: {exact: v%d}}}], route: [{destination: {host: svc-1.example}}]}")))
}

// hostileObjects are objects within the limits of their kinds' schemas whose numbers multiply, by what the problem of each says.
var hostileObjects = map[string]string{
	"1000000 routes":           hostileDelegates("delegates", 1000, 1000),
	"256 hosts × 256 ports":    hostileEntry("wide", 256, 256, 4096),
	"4000 hosts × 4000 routes": objectText("VirtualService", networkingGroup, "square", fmt.Sprintf("{hosts: [%s], http: [%s]}", items(4000, ", ", "h%d.square.example"), items(4000, ", ", "{match: [{uri: {exact: /%d}}], route: [{destination: {host: svc-1.example}}]}"))),
	"2001 subsets × each port": objectText("DestinationRule", networkingGroup, "subsets", fmt.Sprintf("{host: '*.evil.example', subsets: [%s]}", items(2000, ", ", "{name: v%d, labels: {version: v%[1]d}}"))),
	"1000 patches, each for":   objectText("EnvoyFilter", "networking.istio.io/v1alpha3", "patches", fmt.Sprintf("{configPatches: [%s]}", items(1000, ", ", "{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 1.%03ds}}}"))),
	"1 patches, each for":      objectText("EnvoyFilter", "networking.istio.io/v1alpha3", "metadata", "{configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {metadata: {filter_metadata: {evil: {x: "+strings.Repeat("x", 1<<20)+"}}}}}}]}"),
	"256 hosts × 100 ports":    hostileEntry("many", 256, 100, 1),
	"× 512 filter chains":      hostileEntry("ports", 1, 256, 1) + objectText("AuthorizationPolicy", "security.istio.io/v1", "policy", fmt.Sprintf("{rules: [{from: [{source: {principals: [%s]}}]}]}", items(30_000, ", ", "cluster.local/ns/evil/sa/a%d"))),
}

// services is a file of so many ServiceEntries.
func servicesText(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: svc-%d, namespace: shop}\nspec: "+
			"{hosts: [svc-%[1]d.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.%d.%d}]}\n---\n",
			i, i/250, i%250)
	}
	return out.String()
}

// connect connects a sidecar that asks for all that it may see.
func (p *filesPlane) connect(t *testing.T, namespace string) *ads.Client {
	t.Helper()
	c := ads.New(plane.Proxy{Name: "sidecar", Namespace: namespace, IP: "10.9.9.9"}.Node(), ads.NewReader(), func(ads.Event) {})
	if err := c.Connect(t.Context(), p.grpc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Disconnect)
	return c
}

// edit writes a small file and waits until it is in force.
func (p *filesPlane) edit(t *testing.T, version int) time.Duration {
	t.Helper()
	start := time.Now()
	p.put(t, "small.yaml", entryOf("small", version))
	p.inForce(t, fmt.Sprintf("small-v%d.", version), true)
	return time.Since(start)
}

// TestWhatAnObjectMakesIsBounded: objects whose numbers multiply to gigabytes are not in force, and say their numbers; the edits of others
// are in force as soon as without them, memory stays, and the control plane starts with all of them in place.
func TestWhatAnObjectMakesIsBounded(t *testing.T) {
	lay := func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(1000))) }
	p := startFiles(t, lay)
	p.connect(t, "shop")
	p.edit(t, 1)
	before := p.Memory(t)
	version, slowest := 1, time.Duration(0)
	all := ""
	for says, text := range hostileObjects {
		p.put(t, fmt.Sprintf("hostile-%d.yaml", version), text)
		p.says(t, says)
		version++
		slowest = max(slowest, p.edit(t, version))
		all += text
	}
	after := p.Memory(t)
	t.Logf("memory before %v, after %v; the slowest edit took %v", before, after, slowest)
	if after.Own > 2*before.Own+64<<20 {
		t.Errorf("memory grew from %v to %v", before, after)
	}
	if slowest > 2*time.Second {
		t.Errorf("an edit was in force after %v", slowest)
	}
	p.Stop()
	again := startFiles(t, func(dir string) {
		lay(dir)
		rig.Write(t, dir, "hostile.yaml", []byte(all))
	})
	again.connect(t, "shop")
	again.edit(t, 1)
	if m := again.Memory(t); m.Own > 2*before.Own+64<<20 {
		t.Errorf("after a start with all of them memory is %v, without them it was %v", m, before)
	}
	if code, _, err := rig.Call(http.MethodGet, again.url+"/ready", nil); err != nil || code != http.StatusOK {
		t.Errorf("ready: %d, %v", code, err)
	}
}

// largest makes, of each kind and of some pairs of kinds, about the largest object that the schemas allow in a megabyte.
func largest() map[string]string {
	const security, telemetry, extensions = "security.istio.io/v1", "telemetry.istio.io/v1", "extensions.istio.io/v1alpha1"
	wide := hostileEntry("own", 64, 64, 64)
	return map[string]string{
		"Sidecar listeners": objectText("Sidecar", networkingGroup, "s1", fmt.Sprintf("{egress: [%s]}",
			items(500, ", ", "{port: {number: 2%03d, name: http-%[1]d, protocol: HTTP}, hosts: ['*/*']}"))),
		"Sidecar hosts": objectText("Sidecar", networkingGroup, "s2", fmt.Sprintf("{egress: [{hosts: [%s]}]}",
			items(20_000, ", ", "'*/*.h%d.example'"))),
		"Gateway × VirtualService": objectText("Gateway", networkingGroup, "gw", fmt.Sprintf("{selector: {istio: edge}, servers: [%s]}",
			items(500, ", ", "{port: {number: 2%03d, name: http-%[1]d, protocol: HTTP}, hosts: ['*']}"))) +
			objectText("VirtualService", networkingGroup, "gw", fmt.Sprintf("{hosts: [%s], gateways: [gw], http: [%s]}",
				items(300, ", ", "h%d.edge.example"), items(300, ", ", "{match: [{uri: {prefix: /%d}}], route: [{destination: {host: svc-1.example}}]}"))),
		"Gateway hosts": objectText("Gateway", networkingGroup, "gwh", fmt.Sprintf("{selector: {istio: edge}, servers: [%s]}",
			items(100, ", ", "{port: {number: 3%03d, name: http-%[1]d, protocol: HTTP}, hosts: ["+items(190, ", ", "h%d.other.example")+"]}"))),
		"VirtualService gateways": objectText("VirtualService", networkingGroup, "vsg", fmt.Sprintf("{hosts: [%s], gateways: [%s], http: [%s]}",
			items(100, ", ", "h%d.g.example"), items(5000, ", ", "gw%d"), items(1000, ", ", "{match: [{uri: {prefix: /%d}}], route: [{destination: {host: svc-1.example}}]}"))),
		"VirtualService destinations": objectText("VirtualService", networkingGroup, "vsd", fmt.Sprintf("{hosts: [d.example], http: [{match: [%s], route: [%s]}]}",
			items(3000, ", ", "{uri: {prefix: /%d}}"), items(3000, ", ", "{destination: {host: svc-%d.example}, weight: 1}"))),
		"VirtualService tls": objectText("VirtualService", networkingGroup, "vst", fmt.Sprintf("{hosts: [%s], tls: [{match: [{sniHosts: [%s]}], route: [{destination: {host: svc-1.example}}]}]}",
			items(3000, ", ", "t%d.example"), items(3000, ", ", "t%d.example"))),
		"Telemetry": objectText("Telemetry", telemetry, "t", fmt.Sprintf("{metrics: [{providers: [{name: prometheus}], overrides: [%s]}]}",
			items(5000, ", ", "{match: {metric: REQUEST_COUNT}, tagOverrides: {t%d: {operation: UPSERT, value: \"'x'\"}}}"))) + wide,
		"WasmPlugin":         objectText("WasmPlugin", extensions, "w", "{url: 'file:///m.wasm', pluginConfig: {x: "+strings.Repeat("x", 900<<10)+"}}") + wide,
		"PeerAuthentication": objectText("PeerAuthentication", security, "pa", fmt.Sprintf("{selector: {matchLabels: {app: web}}, portLevelMtls: {%s}}", items(60_000, ", ", "\"%d\": {mode: STRICT}")[len("\"0\": {mode: STRICT}, "):])),
		"RequestAuthentication": objectText("RequestAuthentication", security, "ra", fmt.Sprintf("{jwtRules: [%s]}",
			items(4000, ", ", "{issuer: i%d, jwks: '{\"keys\":[]}', fromHeaders: [{name: x-%[1]d}]}"))) + wide,
		"DestinationRule × ports": wide + objectText("DestinationRule", networkingGroup, "dr", fmt.Sprintf("{host: h1.own.evil.example, subsets: [%s]}", items(5000, ", ", "{name: v%d}"))),
		"Ingress": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: evil, annotations: {kubernetes.io/ingress.class: istio}}\nspec: {rules: [" +
			items(5000, ", ", "{host: h%d.i.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}") + "]}\n---\n",
		"many entries": items(5000, "", "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: m-%d, namespace: evil}\nspec: {hosts: [m-%[1]d.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}\n---\n"),
	}
}

// TestLargestOfEachKind: beside about the largest object of each kind, and of pairs of kinds, whether it is refused or in force, edits of
// others are in force soon, and memory grows with what is written.
func TestLargestOfEachKind(t *testing.T) {
	for name, text := range largest() {
		t.Run(name, func(t *testing.T) {
			p := startFiles(t, func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(1000))) })
			p.connect(t, "evil")
			gateway := ads.New(plane.Proxy{Name: "edge", Namespace: "evil", Type: "router", IP: "10.9.9.8", Labels: map[string]string{"istio": "edge", "app": "web"}}.Node(), ads.NewReader(), func(ads.Event) {})
			if err := gateway.Connect(t.Context(), p.grpc); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(gateway.Disconnect)
			p.edit(t, 1)
			before := p.Memory(t)
			p.put(t, "hostile.yaml", text)
			slowest := time.Duration(0)
			for v := 2; v < 12; v++ {
				slowest = max(slowest, p.edit(t, v))
			}
			after := p.Memory(t)
			t.Logf("%d KB: memory before %v, after %v; the slowest edit took %v", len(text)>>10, before, after, slowest)
			if after.Own > 2*before.Own+256<<20 {
				t.Errorf("memory grew from %v to %v", before, after)
			}
			if slowest > 3*time.Second {
				t.Errorf("an edit was in force after %v", slowest)
			}
		})
	}
}
