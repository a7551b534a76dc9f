package demand

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Published is a table of resources of one type, ready to send.
type Published = table.Table[mesh.ResourceKey, *envoy.Encoded]

// Kind says which traits the views of a layer differ by, and which proxies have such a view.
type Kind struct {
	// Traits are in the order in which their texts name shelves.
	Traits []AnyTrait
	// Over are those of Traits that the views below do not have. A proxy has a view only if one of these says something. Empty: all proxies
	// have one.
	Over []AnyTrait
	// On reports whether a proxy has a view of a layer that it sees; nil: it has one of each.
	On func(Placement, mesh.Layer) bool
}

// With returns a kind above k, which differs by some more traits.
func (k Kind) With(traits ...AnyTrait) Kind {
	return Kind{Traits: slices.Concat(k.Traits, traits), Over: traits, On: k.On}
}

// view returns the view of a layer that a proxy has; false: it has none.
func (k Kind) view(p Placement, l mesh.Layer) (View, bool) {
	if k.On != nil && !k.On(p, l) {
		return View{}, false
	}
	says := func(t AnyTrait) bool { return t.erased().in(p).isSet() }
	if len(k.Over) > 0 && !slices.ContainsFunc(k.Over, says) {
		return View{}, false
	}
	cells := make([]traitValue, len(k.Traits))
	for i, t := range k.Traits {
		cells[i] = t.erased().in(p)
	}
	return viewOf(l, cells), true
}

// Of lists the views that a proxy has, the lowest first.
func (k Kind) Of(p Placement) (out []View) {
	for _, l := range p.Layers() {
		if v, ok := k.view(p, l); ok {
			out = append(out, v)
		}
	}
	return out
}

// Below returns the view that lies below one of the kind.
func (k Kind) Below(v View) View { return v.Without(k.Over...) }

// Views are the views of a kind that connected proxies have: equal views share rows and bytes.
type Views struct {
	*table.Table[View, struct{}]
	Kind
	byLayer *table.Table[mesh.Layer, table.Rows[View, struct{}]]
}

// DeclareViews declares the views of a kind.
func DeclareViews(t *Tables, name string, k Kind) Views {
	if len(k.Traits) > mostTraits {
		panic(fmt.Sprintf("demand: %s have %d traits of at most %d", name, len(k.Traits), mostTraits))
	}
	all := table.Keys(t.Placements, name, CompareView, func(_ mesh.ProxyID, p Placement) []View { return k.Of(p) }).SkipInOrigins()
	return Views{
		Table: all,
		Kind:  k,
		byLayer: table.Group(all, name+"/layer", mesh.CompareLayer, func(v View, _ struct{}) []mesh.Layer {
			return []mesh.Layer{v.Layer}
		}).SkipInOrigins(),
	}
}

// In lists the views of a layer, in order.
func (v Views) In(r *table.Reader, l mesh.Layer) iter.Seq2[View, struct{}] {
	rows, _ := table.Get(r, v.byLayer, l)
	return rows.All()
}

// Part is what a feature adds to the resources of proxies: tables of resources of one type, and the shelves where each proxy finds its own.
type Part struct {
	Type   xdstype.Type
	Tables []*Published
	// Shelves returns a proxy's shelves, the lowest first. It reads its inputs through r. If it is nil, proxies see the shelves through
	// another Part.
	Shelves func(r *table.Reader, id mesh.ProxyID, p Placement) []mesh.Shelf

	kinds []Kind // of a part of views: the lowest first
}

// Part lets proxies see the resources that are published for their views of a kind.
func (k Kind) Part(t xdstype.Type, tables ...*Published) Part {
	return Part{Type: t}.Over(k, tables...)
}

// Over lays the shelves of a kind over those of a part of views: in each layer above all others. They hold only what differs. If such a
// shelf lacks a name, the proxy sees the resource below. A resource that must not be seen is hidden there (envoy.Encoded.Hides). The tables
// hold the resources of these shelves.
func (p Part) Over(k Kind, tables ...*Published) Part {
	kinds := append(slices.Clip(p.kinds), k)
	return Part{
		Type: p.Type, Tables: slices.Concat(p.Tables, tables), kinds: kinds,
		Shelves: func(_ *table.Reader, _ mesh.ProxyID, at Placement) (out []mesh.Shelf) {
			for _, l := range at.Layers() {
				for _, k := range kinds {
					if v, ok := k.view(at, l); ok {
						out = append(out, v.Shelf())
					}
				}
			}
			return out
		},
	}
}

// Together merges the parts of a type into one, because shelves of one part may have resources in the tables of another. It returns the
// other parts unchanged.
func Together(t xdstype.Type, parts []Part) (one Part, rest []Part) {
	var of []func(*table.Reader, mesh.ProxyID, Placement) []mesh.Shelf
	one.Type = t
	for _, p := range parts {
		if p.Type != t {
			rest = append(rest, p)
			continue
		}
		if one.Tables = append(one.Tables, p.Tables...); p.Shelves != nil {
			of = append(of, p.Shelves)
		}
	}
	one.Shelves = func(r *table.Reader, id mesh.ProxyID, p Placement) (out []mesh.Shelf) {
		for _, shelves := range of {
			out = append(out, shelves(r, id, p)...)
		}
		return out
	}
	return one, rest
}

// Patched says which proxies get changed resources: by a patch of users, or by a policy for some proxies. Other proxies take no rows.
type Patched struct {
	placements *table.Table[mesh.ProxyID, Placement] // of proxies with changed resources
	of         func(Placement) string
}

// DeclarePatched declares the table of these proxies. among are the proxies to look at, such as Tables.Singular. of returns the change as a
// text, which names the shelves; empty: nothing is changed for the proxy.
func DeclarePatched(among *table.Table[mesh.ProxyID, Placement], name string, of func(Placement) string) Patched {
	return Patched{
		of: of,
		placements: table.Derive(among, name+"/placements", cmp.Compare[mesh.ProxyID], table.Same[Placement],
			func(_ *table.Reader, id mesh.ProxyID, p Placement, emit func(mesh.ProxyID, Placement)) {
				if of(p) != "" {
					emit(id, p)
				}
			}),
	}
}

// Values declares the table of all changes. A result that depends only on the change is computed once for each change, not for each
// resource.
func (d Patched) Values(name string) *table.Table[string, struct{}] {
	return table.Keys(d.placements, name+"/values", cmp.Compare[string],
		func(_ mesh.ProxyID, p Placement) []string { return []string{d.of(p)} })
}

// patchedShelf is a shelf, and the change that some proxies get there.
type patchedShelf struct {
	shelf mesh.Shelf
	by    string
}

func comparePatchedShelf(a, b patchedShelf) int {
	return cmp.Or(mesh.CompareShelf(a.shelf, b.shelf), cmp.Compare(a.by, b.by))
}

// upper returns the shelf of the changed resources.
func (s patchedShelf) upper() mesh.Shelf {
	return mesh.Shelf{Layer: s.shelf.Layer, Part: s.shelf.Part + "/" + s.by}
}

// Over lays the patched resources over each shelf of a part, which holds all resources of a type (Together). patch is called only for
// resources of a shelf that such a proxy sees, and again when the resource, or something that patch read, changes. A resource that patch
// returns unchanged takes no row and no bytes. If patch returns nil, the resource is taken away. If a resource may not be sent, proxies
// keep the patched one that they had.
func (d Patched) Over(
	p Part, name string, patch func(r *table.Reader, by string, k mesh.ResourceKey, e *envoy.Encoded) *envoy.Encoded,
) Part {
	below := p.Shelves
	seen := table.Derive(d.placements, name+"/seen", cmp.Compare[mesh.ProxyID], slices.Equal[[]patchedShelf],
		func(r *table.Reader, id mesh.ProxyID, at Placement, emit func(mesh.ProxyID, []patchedShelf)) {
			var out []patchedShelf
			for _, s := range below(r, id, at) {
				out = append(out, patchedShelf{s, d.of(at)})
			}
			emit(id, out)
		})
	shelves := table.Keys(seen, name+"/views", comparePatchedShelf,
		func(_ mesh.ProxyID, list []patchedShelf) []patchedShelf { return list }).SkipInOrigins()
	for _, lower := range slices.Clone(p.Tables) {
		name := name + "/" + lower.Name()
		pairs := table.Join(
			shelves, func(s patchedShelf, _ struct{}) []mesh.Shelf { return []mesh.Shelf{s.shelf} },
			lower, func(k mesh.ResourceKey, _ *envoy.Encoded) []mesh.Shelf { return []mesh.Shelf{k.Shelf} },
			name+"/pairs")
		p.Tables = append(slices.Clip(p.Tables), table.Derive(pairs, name, mesh.CompareResourceKey, envoy.Same,
			func(
				r *table.Reader, k table.Pair[patchedShelf, mesh.ResourceKey], both table.Both[struct{}, *envoy.Encoded],
				emit func(mesh.ResourceKey, *envoy.Encoded),
			) {
				out := both.Right
				switch {
				case out.Hides:
					return
				case out.Err == nil:
					if out = patch(r, k.Left.by, k.Right, both.Right); out == nil {
						out = &envoy.Encoded{Err: errRemovedByPatch, Hides: true}
					} else if envoy.Same(out, both.Right) {
						return
					}
				}
				emit(mesh.ResourceKey{Shelf: k.Left.upper(), Name: k.Right.Name}, out)
			}))
	}
	p.Shelves = func(r *table.Reader, id mesh.ProxyID, at Placement) (out []mesh.Shelf) {
		by := d.of(at)
		for _, s := range below(r, id, at) {
			if out = append(out, s); by != "" {
				out = append(out, patchedShelf{s, by}.upper())
			}
		}
		return out
	}
	return p
}

// errNotInCluster is why proxies of a cluster are not sent a resource that others are.
var errNotInCluster = errors.New("there is none in this cluster")

// errRemovedByPatch is why proxies of a view are not sent a resource that others are.
var errRemovedByPatch = errors.New("a patch takes it away")

// PublicPart returns a part that all proxies see, on the shelf of Public.
func PublicPart(t xdstype.Type, tables ...*Published) Part {
	return Part{Type: t, Tables: tables, Shelves: func(*table.Reader, mesh.ProxyID, Placement) []mesh.Shelf {
		return []mesh.Shelf{{Layer: mesh.Public}}
	}}
}

// Outputs are the tables that the outside follows: for each type of resource those that hold it, and what each proxy
// sees. A resource with Err set is never sent: proxies keep what they had.
type Outputs struct {
	Resources   [xdstype.Types][]*Published
	Attachments *table.Table[mesh.ProxyID, mesh.Attachment]
}

// Attach collects the shelves that each proxy sees from the parts. For the same type, shelves of a later part are above those of an earlier
// one.
func (t *Tables) Attach(parts ...Part) Outputs {
	var out Outputs
	for _, p := range parts {
		out.Resources[p.Type] = append(out.Resources[p.Type], p.Tables...)
	}
	out.Attachments = table.Derive(t.Placements, "attachments", cmp.Compare[mesh.ProxyID], mesh.Attachment.Equal,
		func(r *table.Reader, id mesh.ProxyID, p Placement, emit func(mesh.ProxyID, mesh.Attachment)) {
			var a mesh.Attachment
			for _, part := range parts {
				if part.Shelves == nil {
					continue
				}
				a[part.Type] = append(a[part.Type], part.Shelves(r, id, p)...)
			}
			emit(id, a)
		})
	return out
}
