package demand_test

import (
	"fmt"
	"testing"

	"fairway/internal/compile/demand"
	"fairway/internal/mesh"
)

// TestViews: a view has the values that its proxies have; equal ones are equal, however they are made, and have one shelf.
func TestViews(t *testing.T) {
	is, cluster, in := true, "", `n"1`
	mutual := demand.Derived("mutual", func(demand.Placement) bool { return is }, demand.Word("mutual"))
	clusters := demand.Derived("cluster", func(demand.Placement) string { return cluster }, demand.Quoted[string]("of"))
	networks := demand.Derived("network", func(demand.Placement) string { return in }, demand.Quoted[string]("in"))
	// Texts of clash are shorter than its values.
	clash := demand.Derived("clash", func(demand.Placement) string { return in }, func(string) string { return "n" })
	shop := mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: "shop"}
	kind := demand.Kind{Traits: []demand.AnyTrait{mutual}}
	over := kind.With(clusters, networks)
	p := demand.Placement{Layer: shop}
	views := over.Of(p)
	if got, want := fmt.Sprint(views), `[public#mutual in "n\"1" ns/shop#mutual in "n\"1"]`; got != want {
		t.Fatalf("a proxy has the views %s, want %s", got, want)
	}
	v := views[1]
	if networks.Of(v) != in || clusters.Of(v) != "" || !mutual.Of(v) {
		t.Errorf("%s has other values than the proxy", v)
	}
	if made := networks.With(mutual.With(demand.View{Layer: shop}, true), in); made != v {
		t.Errorf("%s is another view than %s", made, v)
	}
	if below := over.Below(v); below != kind.Of(p)[1] || below.Shelf().Part != "mutual" {
		t.Errorf("%s lies over %s", v, below)
	}
	if bare := kind.Below(v).Without(mutual, networks); bare != (demand.View{Layer: shop}) {
		t.Errorf("%s without its traits is %s", v, bare)
	}
	if networks.Above(over.Below(v).Shelf(), in) != v.Shelf() || v.In(mesh.Public) != views[0] {
		t.Errorf("%s has another shelf than its values say", v)
	}
	in = ""
	if views := over.Of(p); len(views) > 0 {
		t.Errorf("a proxy of which the upper traits say nothing has %v", views)
	}
	if zero := clusters.With(demand.View{Layer: shop}, ""); zero != (demand.View{Layer: shop}) {
		t.Errorf("a value that says nothing makes %s", zero)
	}
	a, b := clash.With(demand.View{}, "a"), clash.With(demand.View{}, "b")
	if demand.CompareView(a, b) == 0 || demand.CompareView(a, b) != -demand.CompareView(b, a) || demand.CompareView(a, a) != 0 {
		t.Errorf("%s and another view of the same name have no order", a)
	}
}
