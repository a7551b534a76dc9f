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
	return listed("ServiceEntry", networkingGroup, name, "{hosts: [%s], ports: [%s], resolution: STATIC, endpoints: ["+at+"]}",
		list{hosts, "h%d." + name + ".evil.example"}, list{ports, "{number: 1%03d, name: http-%[1]d, protocol: HTTP}"})
}

func hostileDelegates(name string, delegates, routes int) string {
	return listed("VirtualService", networkingGroup, name, "{hosts: ["+name+".evil.example], http: [%s]}",
		list{delegates, "{match: [{uri: {prefix: /r%d}}], delegate: {name: " + name + "-leaf}}"}) +
		listed("VirtualService", networkingGroup, name+"-leaf", "{http: [%s]}",
			list{routes, "{match: [{headers: {x: {exact: v%d}}}], " + toService + "}"})
}

// The API groups of what users write.
const (
	securityGroup   = "security.istio.io/v1"
	telemetryGroup  = "telemetry.istio.io/v1"
	extensionsGroup = "extensions.istio.io/v1alpha1"
	filterGroup     = "networking.istio.io/v1alpha3"
	toService       = "route: [{destination: {host: svc-1.example}}]"
)

// listed makes an object from the text of its specification, with lists in it: each has n items made of their numbers.
type list struct {
	n       int
	pattern string
}

func listed(kind, group, name, spec string, lists ...list) string {
	var all []any
	for _, l := range lists {
		all = append(all, items(l.n, ", ", l.pattern))
	}
	return objectText(kind, group, name, fmt.Sprintf(spec, all...))
}

func uris(n int, match string) list {
	return list{n, "{match: [{uri: {" + match + ": /%d}}], " + toService + "}"}
}

// hostileObjects are objects within the limits of their kinds' schemas, but with numbers that multiply; the key is part of each one's
// problem.
var hostileObjects = map[string]string{
	"1000000 routes":        hostileDelegates("delegates", 1000, 1000),
	"256 hosts × 256 ports": hostileEntry("wide", 256, 256, 4096),
	"256 hosts × 100 ports": hostileEntry("many", 256, 100, 1),
	"4000 hosts × 4000 routes": listed("VirtualService", networkingGroup, "square", "{hosts: [%s], http: [%s]}",
		list{4000, "h%d.square.example"}, uris(4000, "exact")),
	"2001 subsets × each port": listed("DestinationRule", networkingGroup, "subsets", "{host: '*.evil.example', subsets: [%s]}",
		list{2000, "{name: v%d, labels: {version: v%[1]d}}"}),
	"1000 patches, each for": listed("EnvoyFilter", filterGroup, "patches", "{configPatches: [%s]}",
		list{1000, "{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 1.%03ds}}}"}),
	"1 patches, each for": listed("EnvoyFilter", filterGroup, "metadata", "{configPatches: [%s]}",
		list{1, "{applyTo: CLUSTER, patch: {operation: MERGE, value: {metadata: {filter_metadata: {evil%d: {x: " +
			strings.Repeat("x", 1<<20) + "}}}}}}"}),
	"× 512 filter chains": hostileEntry("ports", 1, 256, 1) +
		listed("AuthorizationPolicy", securityGroup, "policy", "{rules: [{from: [{source: {principals: [%s]}}]}]}",
			list{30_000, "cluster.local/ns/evil/sa/a%d"}),
}

// servicesText is a file of so many ServiceEntries.
func servicesText(n int) string {
	return items(n, "", "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: svc-%d, namespace: shop}\n"+
		"spec: {hosts: [svc-%[1]d.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, "+
		"endpoints: [{address: 10.0.0.1}]}\n---\n")
}

func sidecarIn(namespace string) plane.Proxy {
	return plane.Proxy{Name: "sidecar", Namespace: namespace, IP: "10.9.9.9"}
}

// connect connects a proxy that asks for all that it may see, until the test ends.
func (p *filesPlane) connect(t *testing.T, x plane.Proxy) {
	t.Helper()
	c := ads.New(x.Node(), ads.NewReader(), func(ads.Event) {})
	if err := c.Connect(t.Context(), p.grpc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Disconnect)
}

// edit writes a small file and waits until it is in force.
func (p *filesPlane) edit(t *testing.T, version int) time.Duration {
	t.Helper()
	start := time.Now()
	p.put(t, "small.yaml", entryOf("small", version))
	p.inForce(t, fmt.Sprintf("small-v%d.", version), true)
	return time.Since(start)
}

// TestWhatAnObjectMakesIsBounded: objects with numbers that multiply to gigabytes are not in force, and their problems give the numbers.
// Edits of other users are in force as soon as without these objects, memory does not grow, and the control plane starts with all of them
// in place.
func TestWhatAnObjectMakesIsBounded(t *testing.T) {
	lay := func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(1000))) }
	p := startFiles(t, lay)
	p.connect(t, sidecarIn("shop"))
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
	after := p.KeepsBelow(t, 2*before.Own+64<<20, before.Resident+512<<20)
	t.Logf("memory before %v, after %v; the slowest edit took %v", before, after, slowest)
	if slowest > 2*time.Second {
		t.Errorf("an edit was in force after %v", slowest)
	}
	p.Stop()
	again := startFiles(t, func(dir string) {
		lay(dir)
		rig.Write(t, dir, "hostile.yaml", []byte(all))
	})
	again.connect(t, sidecarIn("shop"))
	again.edit(t, 1)
	again.KeepsBelow(t, 2*before.Own+64<<20, before.Resident+512<<20)
	if code, _, err := rig.Call(http.MethodGet, again.url+"/ready", nil); err != nil || code != http.StatusOK {
		t.Errorf("ready: %d, %v", code, err)
	}
}

// served makes so many services, each of so many ports, that the workload of the sidecar in evil serves.
func served(services, ports int) (out string) {
	for i := range services {
		out += listed("ServiceEntry", networkingGroup, fmt.Sprintf("served-%d", i), fmt.Sprintf("{hosts: [served-%d.evil.example], "+
			"resolution: STATIC, endpoints: [{address: 10.9.9.9}], ports: [%%s]}", i),
			list{ports, fmt.Sprintf("{number: 1%d%%03d, name: tcp-%%[1]d, protocol: TCP}", i)})
	}
	return out
}

// entriesAt makes so many services of one TCP port, which share so many addresses.
func entriesAt(n, addresses int) string {
	var out strings.Builder
	for i := range n {
		at := i % addresses
		out.WriteString(objectText("ServiceEntry", networkingGroup, fmt.Sprintf("at-%d", i), fmt.Sprintf(
			"{hosts: [at-%d.evil.example], addresses: [10.200.%d.%d], ports: [{number: 3306, name: tcp, protocol: TCP}], "+
				"resolution: STATIC, endpoints: [{address: 10.0.0.1}]}", i, at/250, 1+at%250)))
	}
	return out.String()
}

// TestListenersOfANamespaceAreBounded: one namespace has so many listeners at each proxy, and so many services in one of them; past it
// its services say so, and edits of others are in force soon.
func TestListenersOfANamespaceAreBounded(t *testing.T) {
	const each = 100 << 10 // bytes that a service may take
	for name, c := range map[string]struct {
		services  int
		addresses int
		says      string
	}{
		"slots":           {10_100, 10_100, "claim 10100 addresses and ports"},
		"services of one": {4_100, 1, "only the 4000 oldest count"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startFiles(t, func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(100))) })
			p.connect(t, sidecarIn("evil"))
			p.edit(t, 1)
			before := p.Memory(t)
			p.put(t, "hostile.yaml", entriesAt(c.services, c.addresses))
			p.says(t, c.says)
			slowest := time.Duration(0)
			for v := 2; v < 7; v++ {
				slowest = max(slowest, p.edit(t, v))
			}
			after := p.KeepsBelow(t, 2*before.Own+int64(c.services)*each, before.Resident+1<<30)
			t.Logf("memory before %v, after %v; the slowest edit took %v", before, after, slowest)
			if slowest > 5*time.Second {
				t.Errorf("an edit was in force after %v", slowest)
			}
		})
	}
}

// largest makes, of each kind and of some pairs of kinds, about the largest object that the schemas allow in a megabyte.
func largest() map[string]string {
	traffic := func(kind, name, spec string, lists ...list) string {
		return listed(kind, networkingGroup, name, spec, lists...)
	}
	wide := hostileEntry("own", 64, 64, 8)
	return map[string]string{
		"Sidecar listeners": traffic("Sidecar", "s1", "{egress: [%s]}",
			list{500, "{port: {number: 2%03d, name: http-%[1]d, protocol: HTTP}, hosts: ['*/*']}"}),
		"Sidecar hosts": traffic("Sidecar", "s2", "{egress: [{hosts: [%s]}]}", list{20_000, "'*/*.h%d.example'"}),
		"Gateway × VirtualService": traffic("Gateway", "gw", "{selector: {istio: edge}, servers: [%s]}",
			list{500, "{port: {number: 2%03d, name: http-%[1]d, protocol: HTTP}, hosts: ['*']}"}) +
			traffic("VirtualService", "gw", "{hosts: [%s], gateways: [gw], http: [%s]}",
				list{300, "h%d.edge.example"}, uris(300, "prefix")),
		"Gateway hosts": traffic("Gateway", "gwh", "{selector: {istio: edge}, servers: [%s]}",
			list{100, "{port: {number: 3%03d, name: http-%[1]d, protocol: HTTP}, hosts: [" +
				strings.ReplaceAll(items(190, ", ", "h%d.other.example"), "%", "%%") + "]}"}),
		"VirtualService gateways": traffic("VirtualService", "vsg", "{hosts: [%s], gateways: [%s], http: [%s]}",
			list{100, "h%d.g.example"}, list{5000, "gw%d"}, uris(1000, "prefix")),
		"VirtualService destinations": traffic("VirtualService", "vsd", "{hosts: [d.example], http: [{match: [%s], route: [%s]}]}",
			list{3000, "{uri: {prefix: /%d}}"}, list{3000, "{destination: {host: svc-%d.example}, weight: 1}"}),
		"VirtualService tls": traffic("VirtualService", "vst", "{hosts: [%s], tls: [{match: [{sniHosts: [%s]}], "+toService+"}]}",
			list{3000, "t%d.example"}, list{3000, "t%d.example"}),
		"Telemetry": wide + listed("Telemetry", telemetryGroup, "t", "{metrics: [{providers: [{name: prometheus}], overrides: [%s]}]}",
			list{5000, "{match: {metric: REQUEST_COUNT}, tagOverrides: {t%d: {operation: UPSERT, value: \"'x'\"}}}"}),
		"WasmPlugin": wide + objectText("WasmPlugin", extensionsGroup, "w",
			"{url: 'file:///m.wasm', pluginConfig: {x: "+strings.Repeat("x", 900<<10)+"}}"),
		"PeerAuthentication": listed("PeerAuthentication", securityGroup, "pa",
			"{selector: {matchLabels: {app: web}}, portLevelMtls: {%s}}", list{8_000, "\"1%04d\": {mode: STRICT}"}),
		"RequestAuthentication": wide + listed("RequestAuthentication", securityGroup, "ra", "{jwtRules: [%s]}",
			list{4000, "{issuer: i%d, jwks: '{\"keys\":[]}', fromHeaders: [{name: x-%[1]d}]}"}),
		"DestinationRule × ports": wide + traffic("DestinationRule", "dr", "{host: h1.own.evil.example, subsets: [%s]}",
			list{5000, "{name: v%d}"}),
		"Ingress": "apiVersion: networking.k8s.io/v1\nkind: Ingress\n" +
			"metadata: {name: i, namespace: evil, annotations: {kubernetes.io/ingress.class: istio}}\nspec: {rules: [" +
			items(5000, ", ", "{host: h%d.i.example, http: {paths: [{path: /, pathType: Prefix, backend: "+
				"{service: {name: a, port: {number: 80}}}}]}}") + "]}\n---\n",
		"EnvoyFilter": listed("EnvoyFilter", filterGroup, "ef", "{configPatches: [%s]}",
			list{1000, "{applyTo: CLUSTER, match: {cluster: {service: svc-%d.example}}, " +
				"patch: {operation: MERGE, value: {connect_timeout: 1.%03[1]ds}}}"}),
		"EnvoyFilter of all": listed("EnvoyFilter", filterGroup, "ef", "{configPatches: [%s]}",
			list{32, "{applyTo: CLUSTER, patch: {operation: MERGE, value: {metadata: {filter_metadata: {k%d: {v: 1}}}}}}"}),
		"AuthorizationPolicy × ports": served(2, 256) + listed("AuthorizationPolicy", securityGroup, "ap",
			"{rules: [{from: [{source: {principals: [%s]}}]}]}", list{1_400, "cluster.local/ns/evil/sa/a%d"}),
		"AuthorizationPolicy": served(2, 256) + listed("AuthorizationPolicy", securityGroup, "ap",
			"{rules: [{from: [{source: {principals: [%s]}}]}]}", list{30_000, "cluster.local/ns/evil/sa/a%d"}),
		"PeerAuthentication × ports": served(8, 256) + listed("PeerAuthentication", securityGroup, "pa",
			"{selector: {matchLabels: {app: web}}, portLevelMtls: {%s}}", list{8_000, "\"1%04d\": {mode: STRICT}"}),
		"services at one address": entriesAt(3_000, 1),
		"many entries":            strings.ReplaceAll(servicesText(16_000), "svc-", "more-"),
	}
}

// TestLargestOfEachKind: beside about the largest object of each kind, and of pairs of kinds, edits of others are in force soon and
// memory is bounded, whether the object is refused or in force.
func TestLargestOfEachKind(t *testing.T) {
	for name, text := range largest() {
		t.Run(name, func(t *testing.T) {
			p := startFiles(t, func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(1000))) })
			sidecar := sidecarIn("evil")
			sidecar.Labels = map[string]string{"app": "web"}
			p.connect(t, sidecar)
			p.connect(t, plane.Proxy{
				Name: "edge", Namespace: "evil", Type: "router", IP: "10.9.9.8", Labels: map[string]string{"istio": "edge", "app": "web"},
			})
			p.edit(t, 1)
			before := p.Memory(t)
			p.put(t, "hostile.yaml", text)
			slowest := time.Duration(0)
			for v := 2; v < 12; v++ {
				slowest = max(slowest, p.edit(t, v))
			}
			after := p.KeepsBelow(t, 2*before.Own+256<<20, before.Resident+1<<30)
			t.Logf("%d KB: memory before %v, after %v; the slowest edit took %v", len(text)>>10, before, after, slowest)
			if slowest > 3*time.Second {
				t.Errorf("an edit was in force after %v", slowest)
			}
		})
	}
}

// TestLargeObjectsGoOneByOne: several objects at the edge of their budgets in one change hold up the edits of others as long as two of
// them do, not all.
func TestLargeObjectsGoOneByOne(t *testing.T) {
	p := startFiles(t, func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(100))) })
	p.connect(t, sidecarIn("evil"))
	version := 0
	slowest := func(file, text, last string) (longest time.Duration) {
		p.put(t, file, text)
		for {
			version++
			longest = max(longest, p.edit(t, version))
			if strings.Contains(p.page(t, "/debug/configz"), last) {
				return longest
			}
		}
	}
	one := slowest("one.yaml", hostileEntry("first", 80, 80, 1), "h79.first.evil.example")
	const many = 8
	text := ""
	for i := range many {
		text += hostileEntry(fmt.Sprintf("more-%d", i), 80, 80, 1)
	}
	all := slowest("many.yaml", text, fmt.Sprintf("h79.more-%d.evil.example", many-1))
	t.Logf("the slowest edit beside one large object took %v, beside %d of them %v", one, many, all)
	if all > many*one/2 {
		t.Errorf("an edit beside %d large objects was in force after %v, beside one after %v", many, all, one)
	}
}

// TestJoinedRoutesOfANamespaceAreBounded: each of many small VirtualServices gets all routes of a large delegate. Together they are
// over the budget of their namespace, and say so, though each is within its own.
func TestJoinedRoutesOfANamespaceAreBounded(t *testing.T) {
	const roots, routes = 600, 3500
	lay := func(dir string) { rig.Write(t, dir, "services.yaml", []byte(servicesText(1000))) }
	p := startFiles(t, lay)
	p.edit(t, 1)
	before := p.Memory(t)
	text := listed("VirtualService", networkingGroup, "leaf", "{http: [%s]}", uris(routes, "exact"))
	for i := range roots {
		text += objectText("VirtualService", networkingGroup, fmt.Sprintf("root-%d", i),
			fmt.Sprintf("{hosts: [root-%d.evil.example], http: [{delegate: {name: leaf}}]}", i))
	}
	p.put(t, "hostile.yaml", text)
	p.tells(t, time.Minute, "large objects of namespace evil would make about") // the roots that count go on one after the other
	slowest := time.Duration(0)
	for v := 2; v < 12; v++ {
		slowest = max(slowest, p.edit(t, v))
	}
	after := p.KeepsBelow(t, 2*before.Own+512<<20, before.Resident+1<<30)
	t.Logf("%d KB: memory before %v, after %v; the slowest edit took %v", len(text)>>10, before, after, slowest)
	if slowest > 2*time.Second {
		t.Errorf("an edit was in force after %v", slowest)
	}
}
