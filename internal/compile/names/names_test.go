package names_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/names"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// TestHeadless: a service that has no address on purpose has those of its healthy endpoints, and an endpoint with a hostname has a name.
func TestHeadless(t *testing.T) {
	w := compiletest.Large(t)
	k := mesh.ServiceKey{Host: "db.shop.svc.cluster.local", Namespace: "shop", Registry: "Kubernetes/one"}
	slice := func(ends ...mesh.SliceEndpoint) []*mesh.Slice {
		return []*mesh.Slice{{Key: mesh.SliceKey{Service: k}, Endpoints: ends}}
	}
	end := func(id string, e mesh.Endpoint) mesh.SliceEndpoint { return mesh.SliceEndpoint{ID: id, Endpoint: e} }
	ill := end("2", mesh.Endpoint{Address: "10.0.0.3", Hostname: "db-2", Health: mesh.Unhealthy})
	w.In.Apply(source.Batch{Set: source.Rows{
		Services: []*mesh.Service{{
			Key: k, Resolution: mesh.Passthrough, ExportTo: []string{"*"},
			Ports: []mesh.Port{{Name: "tcp", Number: 5432, Protocol: mesh.TCP}, {Name: "http", Number: 80, Protocol: mesh.HTTP}},
		}},
		Slices: slice(end("1", mesh.Endpoint{Address: "10.0.0.2", Hostname: "db-1"}),
			end("0", mesh.Endpoint{Address: "10.0.0.1", Hostname: "db-0"}),
			end("6", mesh.Endpoint{Address: "fd00::1", Hostname: "db-0"}), ill, end("3", mesh.Endpoint{Address: "10.0.0.4"})),
	}})
	w.Connect(dns(compiletest.Sidecar("web", "shop", "10.1.0.1")))
	w.Settle()
	want := strings.Join([]string{
		"ns/shop#vip db.shop.svc.cluster.local",
		"\tdb-0.db.shop.svc.cluster.local 10.0.0.1,fd00::1 Kubernetes/one",
		"\tdb-1.db.shop.svc.cluster.local 10.0.0.2 Kubernetes/one",
		"\tdb.shop.svc.cluster.local 10.0.0.1,10.0.0.2,10.0.0.4,fd00::1 Kubernetes/one db/shop",
		"",
	}, "\n")
	if got := w.NameText(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	w.In.Apply(source.Batch{Set: source.Rows{Slices: slice(ill)}})
	w.Settle()
	if got := w.NameText(); got != "" {
		t.Errorf("a service with no endpoint that is well is named:\n%s", got)
	}
}

func dns(p mesh.Proxy) mesh.Proxy {
	p.Names, p.AutoVIP = true, true
	return p
}

func entry(n int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: ns%[2]d}
spec:
  hosts: [s%[1]d.example.com]
  ports: [{number: 5432, name: tcp, protocol: TCP}]
  resolution: STATIC
  endpoints: [{address: 10.0.0.1}]
---
`, n, n%5)
}

// crowd is a mesh of n services that all namespaces see, with agents that resolve names in two namespaces.
func crowd(t *testing.T, n int, capture bool) *compiletest.World {
	w := compiletest.Large(t)
	var text strings.Builder
	for i := range n {
		text.WriteString(entry(i))
	}
	w.Apply(text.String())
	for i, namespace := range []string{"ns1", "other"} {
		p := compiletest.Sidecar("p", namespace, fmt.Sprintf("10.250.0.%d", i+1))
		if capture {
			p = dns(p)
		}
		w.Connect(p)
	}
	w.Settle()
	return w
}

// changes counts rows of names that a turn recomputed, and resources that it changed.
func changes(w *compiletest.World) (recomputed, changed int) {
	for _, tab := range w.Settle().Tables {
		if tab.Name == "names" {
			recomputed += tab.Recomputed
		}
	}
	for range table.Changes(w.Names.Names) {
		changed++
	}
	return recomputed, changed
}

// TestFlat: a changed service is one resource for all proxies with the same view of it, and costs the same among 100 and among 3,000.
func TestFlat(t *testing.T) {
	few, many := crowd(t, 100, true), crowd(t, 3000, true)
	for _, c := range []struct {
		name string
		edit func(w *compiletest.World)
		want int
	}{
		{"a service more", func(w *compiletest.World) { w.Apply(entry(9000)) }, 1},
		{"its address", func(w *compiletest.World) {
			w.Apply(strings.Replace(entry(9000), "  ports", "  addresses: [10.9.9.9]\n  ports", 1))
		}, 1},
		{"an endpoint of one that has an address", func(w *compiletest.World) {
			w.Apply(strings.Replace(
				strings.Replace(entry(9000), "  ports", "  addresses: [10.9.9.9]\n  ports", 1), "10.0.0.1", "10.0.0.2",
				1,
			))
		}, 0},
		{"the service gone", func(w *compiletest.World) { w.Delete("ServiceEntry", "ns0", "s9000") }, 1},
	} {
		c.edit(few)
		c.edit(many)
		rows, got := changes(few)
		if moreRows, more := changes(many); got != c.want || more != got || moreRows != rows {
			t.Errorf("%s: among 100 services %d rows and %d resources, among 3,000 %d and %d; want %d resources", c.name, rows,
				got, moreRows, more, c.want)
		}
	}
}

// TestDemand: there are resources only while some proxy resolves names.
func TestDemand(t *testing.T) {
	w := crowd(t, 50, false)
	resources := func() (n int) {
		w.Store.Read(func(tx *table.Tx) { n = table.Len(tx, w.Names.Names) })
		return n
	}
	if n := resources(); n != 0 {
		t.Errorf("%d resources for nobody", n)
	}
	p := dns(compiletest.Sidecar("late", "other", "10.250.1.1"))
	w.Connect(p)
	w.Settle()
	if n := resources(); n != 50 {
		t.Errorf("%d resources, want 50", n)
	}
	w.In.Proxies.Delete(p.ID)
	w.Settle()
	if n := resources(); n != 0 {
		t.Errorf("%d resources are left for nobody", n)
	}
}

// TestOtherNetworks: clients get a headless service's addresses in their own network and in none; both addresses of an endpoint of two
// families.
func TestOtherNetworks(t *testing.T) {
	w := compiletest.Large(t)
	k := mesh.ServiceKey{Host: "db.shop.svc.cluster.local", Namespace: "shop", Registry: "Kubernetes/one"}
	in := func(id, network string, also ...string) mesh.SliceEndpoint {
		return mesh.SliceEndpoint{
			ID: id,
			Endpoint: mesh.Endpoint{
				Address: "10.0.0." + id, Also: mesh.MakeOthers(also...), Network: network, Hostname: "db-" + id,
			},
		}
	}
	w.In.Apply(source.Batch{Set: source.Rows{
		Services: []*mesh.Service{{
			Key: k, Resolution: mesh.Passthrough, ExportTo: []string{"*"},
			Ports: []mesh.Port{{Name: "tcp", Number: 5432, Protocol: mesh.TCP}},
		}},
		Slices: []*mesh.Slice{{Key: mesh.SliceKey{Service: k}, Endpoints: []mesh.SliceEndpoint{
			in("1", "a", "fd00::1"), in("2", "b"), in("3", ""),
		}}},
	}})
	of := map[string]mesh.ProxyID{}
	for i, network := range []string{"", "a", "b", "c"} {
		p := dns(compiletest.Sidecar("web-"+network, "shop", fmt.Sprintf("10.1.0.%d", i+1)))
		p.Network, of[network] = network, p.ID
		w.Connect(p)
	}
	w.Settle()
	seen := w.ByProxy(xdstype.NameTables)
	for network, want := range map[string]string{
		"": "10.0.0.1,10.0.0.2,10.0.0.3,fd00::1", "a": "10.0.0.1,10.0.0.3,fd00::1", "b": "10.0.0.2,10.0.0.3", "c": "10.0.0.3",
	} {
		e := seen[of[network]][string(k.Host)]
		if e == nil {
			t.Fatalf("proxies of %q are told nothing", network)
		}
		shown, err := names.Show(e.Body)
		i := slices.IndexFunc(shown, func(s names.Shown) bool { return s.Host == string(k.Host) })
		if err != nil || i < 0 || strings.Join(shown[i].Addresses, ",") != want {
			t.Errorf("proxies of %q are told %v (%v), want %s", network, shown, err, want)
		}
	}
}
