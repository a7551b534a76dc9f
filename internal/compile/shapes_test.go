package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
)

// Changes in shapes that users of large meshes have cost what they are about, counted exactly: the rows of a small mesh
// and of a large one are the same.
func TestShapesCostTheSameAtAnySize(t *testing.T) {
	for _, shape := range []struct {
		name string
		make func(w *compiletest.World, size int)
		edit func(w *compiletest.World, size int)
	}{
		{"one more Sidecar that imports nearly all", narrowed, func(w *compiletest.World, _ int) {
			w.Apply(narrowing("late"))
			w.Connect(compiletest.Sidecar("late", "late", "10.250.1.1"))
		}},
		{"a proxy of such a Sidecar goes", narrowed, func(w *compiletest.World, _ int) {
			w.In.Proxies.Delete(compiletest.Sidecar("p0", "client0", "10.250.0.1").ID)
		}},
		{
			"a policy for one workload of the root namespace",
			many,
			func(w *compiletest.World, _ int) { w.Apply(strictFor("istio-system", "nobody")) },
		},
		{"a policy for one workload of a namespace", many, func(w *compiletest.World, _ int) { w.Apply(strictFor("client0", "p0")) }},
		{"one more service at an address that many share", sharing("HTTP"), func(w *compiletest.World, size int) {
			w.Apply(sharer("HTTP", size+1, 80))
		}},
		{"another port of a service at such an address", sharing("HTTP"), func(w *compiletest.World, size int) {
			w.Apply(sharer("HTTP", size/2, 81))
		}},
		{"one more service of connections at such an address", sharing("TCP"), func(w *compiletest.World, size int) {
			w.Apply(sharer("TCP", size+1, 80))
		}},
		{"the first service leaves such an address", sharing("HTTP"), func(w *compiletest.World, _ int) {
			w.Delete("ServiceEntry", "client0", "share0")
		}},
		{"one server of a gateway", served, func(w *compiletest.World, size int) { w.Apply(gateway(size, "extra.example")) }},
	} {
		t.Run(shape.name, func(t *testing.T) {
			// If rows are only removed, none is computed.
			rows := func(size int) (recomputed, changed int) {
				w := compiletest.Large(t)
				shape.make(w, size)
				w.Settle()
				shape.edit(w, size)
				turn := w.Settle()
				t.Logf("%d: %v", size, turn.Tables)
				recomputed, changed = turn.Recomputed, turn.Changed
				for _, part := range turn.Tables {
					switch part.Name {
					case "problems", "problems/all", "problems/object", "statuses": // each object that loses to another one names it
						recomputed, changed = recomputed-part.Recomputed, changed-part.Changed
					}
				}
				return recomputed, changed
			}
			computed, changed := rows(5)
			if c, n := rows(20); c != computed || n != changed || changed == 0 {
				t.Errorf("%d rows computed and %d changed in a mesh of 5, %d and %d in one of 20", computed, changed, c, n)
			}
		})
	}
}

// narrowing is a Sidecar that imports all but one namespace.
func narrowing(namespace string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: own, namespace: %s}\n"+
		"spec: {egress: [{hosts: [\"*/*\", \"~private/*\"]}]}\n---\n", namespace)
}

// narrowed is a mesh of ten services and so many namespaces with a Sidecar of their own.
func narrowed(w *compiletest.World, size int) {
	var text strings.Builder
	for i := range 10 {
		text.WriteString(service(i, ""))
	}
	for i := range size {
		text.WriteString(narrowing(fmt.Sprintf("client%d", i)))
	}
	w.Apply(text.String())
	for i := range size {
		w.Connect(compiletest.Sidecar(fmt.Sprintf("p%d", i), fmt.Sprintf("client%d", i), fmt.Sprintf("10.250.0.%d", i+1)))
	}
}

// many is a mesh of so many proxies, each with a label and a policy of its own, four a namespace.
func many(w *compiletest.World, size int) {
	w.Apply(service(0, ""))
	for i := range 4 * size {
		p := compiletest.Sidecar(fmt.Sprintf("p%d", i), fmt.Sprintf("client%d", i%size), fmt.Sprintf("10.250.0.%d", i+1))
		p.Labels = mesh.MakeLabels(map[string]string{"app": p.Name})
		w.Connect(p)
	}
}

func strictFor(namespace, app string) string {
	return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: %[2]s, namespace: %[1]s}\n"+
		"spec: {selector: {matchLabels: {app: %[2]s}}, mtls: {mode: STRICT}}\n", namespace, app)
}

// sharer is a service at an address that others have, too.
func sharer(protocol string, i, port int) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: share%[1]d, namespace: client0}\n"+
		"spec: {hosts: [share%[1]d.example], addresses: [240.1.1.1], ports: [{number: %[2]d, name: p, protocol: %[3]s}], "+
		"resolution: STATIC, endpoints: [{address: 10.0.0.1}]}\n---\n", i, port, protocol)
}

// sharing is so many services at one address, a proxy of their namespace and one of another.
func sharing(protocol string) func(w *compiletest.World, size int) {
	return func(w *compiletest.World, size int) {
		for i := range size {
			w.Apply(sharer(protocol, i, 80))
		}
		w.Connect(compiletest.Sidecar("own", "client0", "10.250.0.1"), compiletest.Sidecar("other", "other", "10.250.0.2"))
	}
}

// The reads of services that share an address grow with the number of services, not with its square.
func TestServicesAtOneAddressReadAFewOthers(t *testing.T) {
	for _, protocol := range []string{"HTTP", "TCP", "TLS"} {
		edges := func(size int) (n int) {
			w := compiletest.Large(t)
			sharing(protocol)(w, size)
			w.Settle()
			for _, info := range w.Store.Tables() {
				n += info.Edges
			}
			return n
		}
		few, some, many := edges(50), edges(100), edges(150)
		t.Logf("%s: %d, %d, %d reads", protocol, few, some, many)
		if first, second := some-few, many-some; second > first+first/20 {
			t.Errorf("%s: 50 services more have %d reads, the next 50 have %d", protocol, first, second)
		}
	}
}

// served is a gateway with so many servers, and a rule for each.
func served(w *compiletest.World, size int) {
	var text strings.Builder
	text.WriteString(service(0, ""))
	for i := range size {
		fmt.Fprintf(&text, "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v%[1]d, namespace: default}\n"+
			"spec: {hosts: [h%[1]d.example], gateways: [edge], http: [{route: [{destination: {host: "+
			"s0.ns0.svc.cluster.local}}]}]}\n---\n", i)
	}
	text.WriteString(gateway(size))
	w.Apply(text.String())
	edge := compiletest.Sidecar("edge", "default", "10.250.0.1")
	edge.Type, edge.Labels = mesh.Router, mesh.MakeLabels(map[string]string{"app": "edge"})
	w.Connect(edge)
}

// gateway is served's, with more hosts on its first server.
func gateway(size int, more ...string) string {
	var text strings.Builder
	text.WriteString(
		"apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: edge, namespace: default}\nspec:\n  " +
			"selector: {app: edge}\n  servers:\n",
	)
	for i := range size {
		hosts := []string{fmt.Sprintf("h%d.example", i)}
		if i == 0 {
			hosts = append(hosts, more...)
		}
		fmt.Fprintf(&text, "  - {port: {number: %[1]d, name: http-%[1]d, protocol: HTTP}, hosts: [%[2]s]}\n",
			8000+i, strings.Join(hosts, ", "))
	}
	return text.String()
}

// A change of an object's place, or of metadata that nothing is made from, computes nothing, and problems know the new place.
func TestWhereAnObjectIsWrittenComputesNothing(t *testing.T) {
	w := compiletest.Large(t)
	text := func(above, metadata string) string {
		return above + "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: rule, " +
			"namespace: shop" + metadata + "}\nspec:\n  host: nobody.example.com\n"
	}
	w.Connect(compiletest.Sidecar("p", "shop", "10.250.0.1"))
	w.Apply(text("", ""))
	w.Settle()
	for _, c := range []struct {
		above, metadata string
		line            int
	}{
		{"# a comment\n# and another\n", "", 7},
		{"", ", labels: {team: a}, annotations: {note: b}, resourceVersion: \"7\", generation: 3", 5},
	} {
		w.Apply(text(c.above, c.metadata))
		if turn := w.Settle(); turn.Recomputed != 0 {
			t.Errorf("%q %q: %d rows were computed again: %v", c.above, c.metadata, turn.Recomputed, turn.Tables)
		}
		if p := w.Problems(); len(p) != 1 || p[0].Line != c.line {
			t.Errorf("problems are %v, want one in line %d", p, c.line)
		}
	}
}
