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
