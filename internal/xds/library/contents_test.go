package library

import (
	"testing"

	"fairway/internal/xdstype"
)

// TestContentsAreHeldOnce: rows with the same content of a name share a resource and its frames, for as long as some row has it.
func TestContentsAreHeldOnce(t *testing.T) {
	const name = "outbound|80||a"
	of := func(version uint64, needs ...string) *Resource {
		return NewResource(xdstype.RouteURL, name, version, []byte{byte(version)}, ResourceOptions{Needs: needs})
	}
	bare := func(prefix string) *Resource {
		part := &Part{Body: []byte{1}, MemberType: xdstype.VirtualHostURL, MemberPrefix: prefix, Field: 2}
		return NewResource(xdstype.RouteURL, name, 1, []byte{1}, ResourceOptions{Needs: []string{"x"}, StateForm: part})
	}
	l, turn := New(), uint64(0)
	publish := func(changes ...Change) {
		turn++
		for i := range changes {
			changes[i].Type, changes[i].Name = xdstype.RouteURL, name
		}
		l.Publish(turn, changes)
	}
	on := func(shelf string) *Resource {
		t.Helper()
		if s := l.shelves[shelfID{xdstype.RouteURL, shelf}]; s != nil {
			return s.row(l.names.find(name)).res
		}
		return nil
	}
	publish(Change{Shelf: "a", Resource: of(1, "x")}, Change{Shelf: "b", Resource: of(1, "x")}, Change{Shelf: "c", Resource: of(2, "x")})
	publish(Change{Shelf: "d", Resource: of(1, "x")})
	if on("a") != on("b") || on("a") != on("d") || on("a") == on("c") || len(l.contents) != 2 {
		t.Errorf("three rows of one content do not share it; %d contents are known", len(l.contents))
	}
	first := on("a")
	publish(Change{Shelf: "e", Resource: of(1, "y")}, Change{Shelf: "f", Resource: bare("80/")}, Change{Shelf: "g", Resource: bare("81/")})
	if on("e") == first || on("f") == first || on("f") == on("g") || len(on("e").Needs()) != 1 || on("e").Needs()[0].Text() != "y" {
		t.Error("resources of one version that depend on others differently are shared")
	}

	publish(Change{Shelf: "a", Resource: of(2, "x")}, Change{Shelf: "b", Resource: of(1, "x")}, Change{Shelf: "d", Whiteout: true})
	if on("a") != on("c") || on("b") != first || on("d") != nil {
		t.Error("what some rows do not have any more is not shared by those that have it")
	}
	publish(Change{Shelf: "b"}, Change{Shelf: "a"}, Change{Shelf: "c"})
	publish(Change{Shelf: "h", Resource: of(1, "x")})
	if on("h") == first {
		t.Error("a resource is kept although no row had it any more")
	}
	for _, shelf := range []string{"d", "e", "f", "g", "h"} {
		publish(Change{Shelf: shelf})
	}
	if len(l.contents) != 0 {
		t.Errorf("%d contents are kept that no row has", len(l.contents))
	}
}

// TestOptionsThatDiffer: resources that differ in any of their options are not one.
func TestOptionsThatDiffer(t *testing.T) {
	base := func() ResourceOptions {
		return ResourceOptions{
			Needs: []string{"x", "y"}, Load: "l", Message: "m",
			StateForm: &Part{Body: []byte("b"), MemberType: "t", MemberPrefix: "80/", Field: 2},
		}
	}
	if !base().equal(base()) || !(ResourceOptions{}).equal(ResourceOptions{}) {
		t.Error("the same options differ")
	}
	for name, change := range map[string]func(o *ResourceOptions){
		"needs":       func(o *ResourceOptions) { o.Needs = []string{"y", "x"} },
		"fewer needs": func(o *ResourceOptions) { o.Needs = o.Needs[:1] },
		"load":        func(o *ResourceOptions) { o.Load = "" }, "message": func(o *ResourceOptions) { o.Message = "" },
		"no form": func(o *ResourceOptions) { o.StateForm = nil }, "body": func(o *ResourceOptions) { o.StateForm.Body = []byte("c") },
		"member type": func(o *ResourceOptions) { o.StateForm.MemberType = "u" },
		"prefix":      func(o *ResourceOptions) { o.StateForm.MemberPrefix = "90/" },
		"field":       func(o *ResourceOptions) { o.StateForm.Field = 3 },
	} {
		other := base()
		if change(&other); base().equal(other) || other.equal(base()) {
			t.Errorf("options with another %s are the same", name)
		}
	}
}
