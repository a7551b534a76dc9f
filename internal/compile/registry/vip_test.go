package registry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/registry"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// plain is a registry's service without an address.
func plain(n int) *mesh.Service {
	return &mesh.Service{Key: mesh.ServiceKey{Host: mesh.Host(fmt.Sprintf("s%d.example", n)), Namespace: "shop", Registry: "memory"},
		Ports: []mesh.Port{{Name: "tcp", Number: 9000, Protocol: mesh.TCP}}, ExportTo: []string{"*"}}
}

func vips(w *compiletest.World) map[registry.HostKey]string {
	w.Settle()
	out := map[registry.HostKey]string{}
	w.Store.Read(func(tx *table.Tx) {
		for k, v := range table.All(tx, w.Registry.VIPs) {
			out[k] = v
		}
	})
	return out
}

// The addresses of a set of services do not depend on the order of their arrival, nor on services that came and went; no two share one.
func TestVIPsDependOnTheSetAlone(t *testing.T) {
	const n = 3000
	w := compiletest.Large(t)
	for i := range n {
		w.In.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{plain(i)}}})
	}
	want := vips(w)
	taken := map[string]registry.HostKey{}
	inside := netip.MustParsePrefix("240.240.0.0/16")
	for k, ip := range want {
		if addr, err := netip.ParseAddr(ip); err != nil || !inside.Contains(addr) || taken[ip] != (registry.HostKey{}) {
			t.Fatalf("%v has %q, which %v has too, or which is none of the range", k, ip, taken[ip])
		}
		taken[ip] = k
	}
	if len(want) != n {
		t.Fatalf("%d of %d services have an address", len(want), n)
	}

	other := compiletest.Large(t)
	order := rand.New(rand.NewPCG(1, 2)).Perm(n + 500)
	for turn, i := range order {
		other.In.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{plain(i)}}})
		if turn%700 == 0 {
			other.Settle()
		}
	}
	other.Settle()
	for i := range 500 {
		other.In.Apply(source.Batch{Gone: source.Keys{Services: []mesh.ServiceKey{plain(n + i).Key}}})
	}
	if got := vips(other); !maps.Equal(got, want) {
		t.Error("the same services have other addresses after another history")
	}
}

// One more service changes few addresses: those of services that it takes a slot from.
func TestVIPsAreLocal(t *testing.T) {
	w := compiletest.Large(t)
	var all []*mesh.Service
	for i := range 3000 {
		all = append(all, plain(i))
	}
	w.In.Apply(source.Batch{Set: source.Rows{Services: all}})
	before := vips(w)
	moved := 0
	for i := range 100 {
		w.In.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{plain(10000 + i)}}})
	}
	after := vips(w)
	for k, ip := range before {
		if after[k] != ip {
			moved++
		}
	}
	if moved > 15 {
		t.Errorf("100 more services moved %d addresses", moved)
	}
}
