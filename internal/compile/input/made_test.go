package input_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/table"
)

// object returns one of a kind. If the kind is Hosts, a VirtualService with its name is made from it.
func object(kind config.Kind, name string, hash uint64) *config.Object {
	return &config.Object{
		Key:  config.Key{Kind: kind, Namespace: "shop", Name: name},
		Hash: hash,
		Ref:  mesh.ObjectRef{Kind: string(kind), Namespace: "shop", Name: name},
	}
}

// hosts makes a VirtualService of each object of kind Hosts.
func hosts(t *input.Tables) []input.Made {
	return []input.Made{{Kind: "VirtualService", Objects: table.Derive(t.Others, "hosts/virtualservices", config.CompareKey, config.Same,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *config.Object)) {
			if k.Kind != "Hosts" {
				return
			}
			made := *o
			made.Kind = "VirtualService"
			emit(made.Key, &made)
		})}}
}

// An object that is made from another kind is used beside the written ones, gives way to them, and names hosts as they do.
func TestMadeObjectsStandBesideWrittenOnes(t *testing.T) {
	s := table.New(table.Options{Invariants: true})
	in := input.Declare(s, input.Options{}, hosts)
	state := func() string {
		s.Settle()
		var out []string
		s.Read(func(tx *table.Tx) {
			for k, o := range table.All(tx, in.Of("VirtualService")) {
				out = append(out, fmt.Sprintf("%s %d", k.Name, o.Hash))
			}
			for k := range table.All(tx, in.Naming) {
				out = append(out, "names: "+k.Name)
			}
			for n := range s.Notes(tx) {
				if p, ok := n.Value.(mesh.Problem); ok && p.Code == "DuplicateObject" {
					out = append(out, p.Object.String()+" gives way to "+p.Other.String())
				}
			}
		})
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	check := func(at, want string) {
		t.Helper()
		if got := state(); got != want {
			t.Errorf("%s: %s\nwant %s", at, got, want)
		}
	}
	in.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{object("Hosts", "a", 1), object("VirtualService", "b", 2)}}})
	check("one made, one written", "a 1, b 2, names: a, names: b")
	in.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{object("VirtualService", "a", 3)}}})
	check("both of a name", "Hosts shop/a gives way to VirtualService shop/a, a 3, b 2, names: a, names: b")
	in.Apply(source.Batch{Gone: source.Keys{Objects: []config.Key{object("VirtualService", "a", 0).Key}}})
	check("the written one goes", "a 1, b 2, names: a, names: b")
	in.Apply(source.Batch{Gone: source.Keys{Objects: []config.Key{object("Hosts", "a", 0).Key}}})
	check("what it was made of goes", "b 2, names: b")
}
