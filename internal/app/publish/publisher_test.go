package publish

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"fairway/internal/compile"
	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// TestHeldBackRowChangesNothing: a row that may not be sent is neither sent nor removed, so proxies keep what they have.
func TestHeldBackRowChangesNothing(t *testing.T) {
	key := mesh.ResourceKey{Name: "outbound|80||reviews"}
	for _, c := range []struct {
		name           string
		change         table.Change[mesh.ResourceKey, *envoy.Encoded]
		ok, set, white bool
	}{
		{
			"good",
			table.Change[mesh.ResourceKey, *envoy.Encoded]{Key: key, Has: true, New: &envoy.Encoded{Version: 1, Body: []byte{1}}},
			true,
			true,
			false,
		},
		{
			"held back",
			table.Change[mesh.ResourceKey, *envoy.Encoded]{Key: key, Has: true, New: &envoy.Encoded{Err: errors.New("no")}},
			false,
			false,
			false,
		},
		{
			"withheld",
			table.Change[mesh.ResourceKey, *envoy.Encoded]{Key: key, Has: true, New: &envoy.Encoded{Err: errors.New("no"), Hides: true}},
			true,
			false,
			true,
		},
		{"gone", table.Change[mesh.ResourceKey, *envoy.Encoded]{Key: key}, true, false, false},
	} {
		change, ok := change(xdstype.ClusterURL, c.change)
		if ok != c.ok || (change.Resource != nil) != c.set || change.Whiteout != c.white {
			t.Errorf("%s: published %t with resource %v, whiteout %t", c.name, ok, change.Resource, change.Whiteout)
		}
		if ok && (change.Name != key.Name || change.Type != xdstype.ClusterURL) {
			t.Errorf("%s: got %+v", c.name, change)
		}
	}
}

// TestRouteCarriesItsParts: a route configuration has its form for a client without virtual host discovery.
func TestRouteCarriesItsParts(t *testing.T) {
	r := resource(xdstype.RouteURL, "80",
		&envoy.Encoded{Version: 1, Body: []byte{1}, Needs: []string{"a"}, WithoutVHDS: &envoy.WithoutVHDS{Body: []byte{2}, Prefix: "80/"}})
	o := r.Options()
	if o.StateForm == nil || o.StateForm.MemberPrefix != "80/" || o.StateForm.MemberType != xdstype.VirtualHostURL ||
		o.StateForm.Field != 2 ||
		len(o.Needs) != 1 {
		t.Errorf("got %+v", o)
	}
	if o := resource(xdstype.ClusterURL, "a", &envoy.Encoded{Version: 1, Load: "a"}).Options(); o.StateForm != nil || o.Load != "a" {
		t.Errorf("got %+v", o)
	}
}

// TestShelvesThatLookAlike: labels and namespaces come from outside, so the printed names of two shelves decide nothing.
func TestShelvesThatLookAlike(t *testing.T) {
	layer := mesh.Layer{Kind: mesh.GatewayLayer, Namespace: "shop", Name: "a=b"}
	part := mesh.Shelf{Layer: layer, Part: "listeners/web"}
	name := mesh.Shelf{Layer: mesh.Layer{Kind: mesh.GatewayLayer, Namespace: "shop", Name: "a=b#listeners/web"}}
	if part.String() != name.String() {
		t.Fatalf("%s and %s do not look alike: nothing was looked at", part, name)
	}
	if shelf(part) == shelf(name) {
		t.Error("two shelves have one key")
	}
	if shelf(part) != shelf(mesh.Shelf{Layer: layer, Part: "listeners/web"}) {
		t.Error("one shelf has two keys")
	}
}

// TestShelfNamesAreForgotten: the names of shelves that came and went take no memory.
func TestShelfNamesAreForgotten(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 200_000 {
		shelf(mesh.Shelf{Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: "shop"}, Part: fmt.Sprintf("inbound/%016x", i)})
	}
	if after := heap(); after > before+8<<20 {
		t.Errorf("%d MB are kept of 200,000 names that nobody uses", (after-before)>>20)
	}
}

// TestMovedRowIsNotGone: if a row of one table becomes a row of another table of the type in one turn, proxies keep the resource, whichever
// table is first.
func TestMovedRowIsNotGone(t *testing.T) {
	s := table.New(table.Options{})
	first := table.NewInput(s, "first", mesh.CompareResourceKey, envoy.Same)
	second := table.NewInput(s, "second", mesh.CompareResourceKey, envoy.Same)
	key, e := mesh.ResourceKey{Name: "outbound|53||dns"}, &envoy.Encoded{Version: 1, Body: []byte{1}}
	from, to := first, second
	from.Set(key, e)
	s.Settle()
	for range 2 {
		from.Delete(key)
		to.Set(key, e)
		s.Settle()
		got := changesOf(xdstype.ClusterURL, []*compile.Published{first.Table, second.Table})
		if len(got) != 1 || got[0].Resource == nil {
			t.Errorf("from %s to %s: %+v", from.Name(), to.Name(), got)
		}
		from, to = to, from
	}
	from.Delete(key)
	s.Settle()
	if got := changesOf(xdstype.ClusterURL, []*compile.Published{first.Table, second.Table}); len(got) != 1 || got[0].Resource != nil {
		t.Errorf("a row that is gone: %+v", got)
	}
}
