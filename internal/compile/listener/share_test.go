package listener_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// headless is so many headless Services of a namespace with a TCP port and so many pods each.
func headless(namespace string, services, pods int) (rows source.Rows) {
	for i := range services {
		k := mesh.ServiceKey{
			Host:      mesh.Host(fmt.Sprintf("zk%d.%s.svc.cluster.local", i, namespace)),
			Namespace: namespace, Registry: mesh.RegistryOf("one"),
		}
		rows.Services = append(rows.Services, &mesh.Service{
			Key: k, Created: int64(i), Resolution: mesh.Passthrough, ExportTo: []string{"*"},
			Ports:  []mesh.Port{{Name: "tcp", Number: 2181, Protocol: mesh.TCP}},
			Origin: mesh.ObjectRef{Kind: "Service", Namespace: namespace, Name: fmt.Sprintf("zk%d", i)},
		})
		slice := &mesh.Slice{Key: mesh.SliceKey{Service: k}}
		for p := range pods {
			ip := fmt.Sprintf("10.%d.%d.%d", len(namespace)*20+i, p/250, p%250+1)
			slice.Endpoints = append(slice.Endpoints, mesh.SliceEndpoint{ID: ip, Endpoint: mesh.Endpoint{Address: ip}})
		}
		rows.Slices = append(rows.Slices, slice)
	}
	return rows
}

func slots(w *compiletest.World) map[string]int {
	n := map[string]int{}
	w.Store.Read(func(tx *table.Tx) {
		for s, c := range table.All(tx, w.Listener.Slots) {
			if s.Layer == mesh.Public {
				for _, e := range c.Connections {
					n[e.Key.Namespace]++
				}
			}
		}
	})
	return n
}

// TestListenersOfANamespaceAreBounded: if the services of a namespace claim more addresses than it may give a proxy, those of the oldest
// services count, and a problem has the numbers. Other namespaces lose nothing, and all count again once there are fewer.
func TestListenersOfANamespaceAreBounded(t *testing.T) {
	w := compiletest.Large(t)
	rows := headless("zoo", 20, 500)
	w.In.Apply(source.Batch{Set: rows})
	w.In.Apply(source.Batch{Set: headless("abc", 1, 10)})
	w.Connect(compiletest.Sidecar("web", "shop", "10.1.0.1"))
	start := time.Now()
	w.Settle()
	t.Logf("20 × 500: %v", time.Since(start))
	if n := slots(w); n["zoo"] != 10_000 || n["abc"] != 10 {
		t.Errorf("services claim %v listeners, want 10000 and 10", n)
	}
	if text := w.ProblemText(); strings.Contains(text, "OverBudget") || strings.Contains(text, "listener of every proxy") {
		t.Errorf("problems are %s", text)
	}
	more := headless("zoo", 21, 500)
	last := more.Slices[20]
	w.In.Apply(source.Batch{Set: source.Rows{Services: more.Services[20:], Slices: more.Slices[20:]}})
	start = time.Now()
	w.Settle()
	t.Logf("one more Service: %v", time.Since(start))
	if n := slots(w); n["zoo"] != 10_000 || n["abc"] != 10 {
		t.Errorf("with one more Service, services claim %v listeners, want 10000 and 10", n)
	}
	if text := w.ProblemText(); !strings.Contains(text, "claim 10500 addresses and ports") || !strings.Contains(text, "500 from zk20.zoo") {
		t.Errorf("problems are %s", text)
	}
	few := *last
	few.Endpoints = nil
	w.In.Apply(source.Batch{Set: source.Rows{Slices: []*mesh.Slice{&few}}})
	w.Settle()
	if n, text := slots(w), w.ProblemText(); n["zoo"] != 10_000 || strings.Contains(text, "10500") {
		t.Errorf("after the last one's endpoints went, services claim %v listeners, problems are %s", n, text)
	}
}

// TestClaimsToOneSlotAreBounded: of a namespace with thousands of services at one address and port the oldest count.
func TestClaimsToOneSlotAreBounded(t *testing.T) {
	w := compiletest.Large(t)
	tls := func(namespace string, i int) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: s%[1]d, namespace: %[2]s}\n"+
			"spec: {hosts: [s%[1]d.%[2]s.example], addresses: [240.1.1.1], ports: [{number: 443, name: p, protocol: TCP}], "+
			"resolution: DNS}\n---\n", i, namespace)
	}
	for i := range 4003 {
		w.Apply(tls("evil", i))
	}
	w.Apply(tls("good", 0))
	w.Connect(compiletest.Sidecar("web", "shop", "10.1.0.1"))
	w.Settle()
	if n := slots(w); n["evil"] != 4000 || n["good"] != 1 {
		t.Errorf("services have %v claims, want 4000 and 1", n)
	}
	want := "4003 ports of services of namespace evil claim connections to port 443 of 240.1.1.1, but only the 4000 oldest count: " +
		"s4000.evil.example and 2 more have none"
	if text := w.ProblemText(); !strings.Contains(text, want) {
		t.Errorf("no problem says %q", want)
	}
	w.Delete("ServiceEntry", "evil", "s5")
	w.Delete("ServiceEntry", "evil", "s6")
	w.Delete("ServiceEntry", "evil", "s7")
	w.Settle()
	if text := w.ProblemText(); strings.Contains(text, "ports of services of namespace evil claim") {
		t.Error("the problem is still there with 4000 services")
	}
}
