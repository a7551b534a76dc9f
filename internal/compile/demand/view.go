package demand

import (
	"cmp"
	"iter"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Published is a table of resources of one type, ready to send.
type Published = table.Table[mesh.ResourceKey, *envoy.Encoded]

// Views are the variants of something that connected proxies want. A feature declares here, once, on what of a proxy its
// resources depend: equal views share rows and bytes.
type Views[V comparable] struct {
	*table.Table[V, struct{}]
	byLayer *table.Table[mesh.Layer, table.Rows[V, struct{}]]
	of      func(Placement) []V
}

// DeclareViews declares the views that of returns for the proxies that are connected: the lower first. layer says of which
// layer's rows a view is a variant.
func DeclareViews[V comparable](
	t *Tables,
	name string,
	compare func(a, b V) int,
	layer func(V) mesh.Layer,
	of func(Placement) []V,
) Views[V] {
	by := table.Group(t.Placements, "placements/"+name, compare, func(_ mesh.ProxyID, p Placement) []V { return of(p) }).Broad()
	all := table.Derive(by, name, compare, table.Same[struct{}],
		func(_ *table.Reader, v V, _ table.Rows[mesh.ProxyID, Placement], emit func(V, struct{})) {
			emit(v, struct{}{})
		}).Broad()
	return Views[V]{
		Table: all,
		of:    of,
		byLayer: table.Group(all, name+"/layer", mesh.CompareLayer, func(v V, _ struct{}) []mesh.Layer {
			return []mesh.Layer{layer(v)}
		}).Broad(),
	}
}

// Of lists the views of a layer, in order.
func (v Views[V]) Of(r *table.Reader, l mesh.Layer) iter.Seq[V] {
	rows, _ := table.Get(r, v.byLayer, l)
	return func(yield func(V) bool) {
		for view := range rows.All() {
			if !yield(view) {
				return
			}
		}
	}
}

// PerLayer is one view of each layer that a proxy sees, from below.
func PerLayer[V any](p Placement, view func(mesh.Layer) V) (out []V) {
	for _, l := range p.Layers() {
		out = append(out, view(l))
	}
	return out
}

// Part is what a feature contributes to what proxies are sent: tables of resources of one type, and on which of their
// shelves a proxy finds its own.
type Part struct {
	Type   mesh.ResourceType
	Tables []*Published
	// Shelves are a proxy's, the lowest first. It reads what it depends on through r. Nil: another Part has proxies see
	// the shelves.
	Shelves func(r *table.Reader, id mesh.ProxyID, p Placement) []mesh.Shelf
}

// Part has proxies see what is published for their views; shelf says where that is.
func (v Views[V]) Part(t mesh.ResourceType, shelf func(V) mesh.Shelf, tables ...*Published) Part {
	return Part{Type: t, Tables: tables, Shelves: func(_ *table.Reader, _ mesh.ProxyID, p Placement) (out []mesh.Shelf) {
		for _, view := range v.of(p) {
			out = append(out, shelf(view))
		}
		return out
	}}
}

// Everybodys is a part that all proxies see, on the shelf of Public.
func Everybodys(t mesh.ResourceType, tables ...*Published) Part {
	return Part{Type: t, Tables: tables, Shelves: func(*table.Reader, mesh.ProxyID, Placement) []mesh.Shelf {
		return []mesh.Shelf{{Layer: mesh.Public}}
	}}
}

// OfGateways is shelves for gateways alone.
func OfGateways(shelves func(Placement) []mesh.Shelf) func(*table.Reader, mesh.ProxyID, Placement) []mesh.Shelf {
	return func(_ *table.Reader, _ mesh.ProxyID, p Placement) []mesh.Shelf {
		if p.Layer.Kind != mesh.GatewayLayer {
			return nil
		}
		return shelves(p)
	}
}

// LayerPart has proxies see what is published for their layers, on a shelf each.
func LayerPart(t mesh.ResourceType, tables ...*Published) Part {
	return Part{Type: t, Tables: tables, Shelves: func(_ *table.Reader, _ mesh.ProxyID, p Placement) []mesh.Shelf {
		return PerLayer(p, func(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l} })
	}}
}

// Outputs are the tables that the outside follows: for each type of resource those that hold it, and what each proxy
// sees. A resource whose Err is set is never sent: proxies keep what they had.
type Outputs struct {
	Resources   [mesh.ResourceTypes][]*Published
	Attachments *table.Table[mesh.ProxyID, mesh.Attachment]
}

// Attach puts together what proxies see. Of one type the shelves of a later part stand above those of an earlier one.
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
