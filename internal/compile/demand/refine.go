package demand

import (
	"cmp"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file computes the rows of views above other views (Part.Over): only resources that differ there.

// Which says which rows of a layer differ in a view.
type Which uint8

// A view takes None, Some or All rows of its layer. A row that is Some differs in every view that takes Some or All. A row that is All
// differs only in views that take All. A row that is None differs in no view.
const (
	None Which = iota
	Some
	All
)

// Refinement joins views with the rows of their layers. L describes a view.
type Refinement[L any, K comparable, R any] struct {
	Views *table.Table[View, L]
	Takes func(View, L) Which // nil: All
	// Of returns the layer of a row, and says which of the layer's views the row differs in.
	Of func(K, R) (mesh.Layer, Which)
	// Compare orders the keys of rows.
	Compare func(a, b K) int
}

type term struct {
	layer mesh.Layer
	which Which
}

// pair is a row in a view.
type pair[K comparable] = table.Pair[View, K]

func (x Refinement[L, K, R]) pairs(name string, rows *table.Table[K, R]) *table.Table[pair[K], table.Both[L, R]] {
	return table.Join(
		x.Views, func(v View, known L) (out []term) {
			takes := All
			if x.Takes != nil {
				takes = x.Takes(v, known)
			}
			for which := Some; which <= takes; which++ {
				out = append(out, term{v.Layer, which})
			}
			return out
		},
		rows, func(k K, row R) []term {
			if l, which := x.Of(k, row); which != None {
				return []term{{l, which}}
			}
			return nil
		},
		name+"/pairs")
}

// Publish builds for each view what rows are there. build returns nil if what lies below serves the view's proxies too.
func (x Refinement[L, K, R]) Publish(
	name string, rows *table.Table[K, R], build func(r *table.Reader, v View, k K, row R) (string, *envoy.Encoded),
) *Published {
	return table.Derive(x.pairs(name, rows), name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k pair[K], both table.Both[L, R], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if resource, e := build(r, k.Left, k.Right, both.Right); e != nil {
				emit(mesh.ResourceKey{Shelf: k.Left.Shelf(), Name: resource}, e)
			}
		})
}

// Shared is a Refinement for many views and layers that have the same resources. W says what a view wants; each W is built once.
type Shared[L any, K comparable, R any, W comparable] struct {
	Refinement[L, K, R]
	// Want returns what a view wants for a row; false: the same as below.
	Want func(v View, known L, k K, row R) (W, bool)
	// Order compares two wants.
	Order func(a, b W) int
	// Name returns the name of the resource.
	Name func(W) string
	// Build returns nil if the resource below serves all views that want it.
	Build func(r *table.Reader, w W) *envoy.Encoded
}

// Publish builds what views want of rows.
func (x Shared[L, K, R, W]) Publish(name string, rows *table.Table[K, R]) *Published {
	compare := func(a, b pair[K]) int { return cmp.Or(CompareView(a.Left, b.Left), x.Compare(a.Right, b.Right)) }
	wanted := table.Derive(x.pairs(name, rows), name+"/wanted", compare, table.Same[W],
		func(_ *table.Reader, k pair[K], both table.Both[L, R], emit func(pair[K], W)) {
			if w, ok := x.Want(k.Left, both.Left, k.Right, both.Right); ok {
				emit(k, w)
			}
		})
	once := table.Keys(wanted, name+"/selection", x.Order, func(_ pair[K], w W) []W { return []W{w} }).SkipInOrigins()
	built := table.Derive(once, name+"/assignments", x.Order, envoy.Same,
		func(r *table.Reader, w W, _ struct{}, emit func(W, *envoy.Encoded)) {
			if e := x.Build(r, w); e != nil {
				emit(w, e)
			}
		})
	return table.Derive(wanted, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k pair[K], w W, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if e, ok := table.Get(r, built, w); ok {
				emit(mesh.ResourceKey{Shelf: k.Left.Shelf(), Name: x.Name(w)}, e)
			}
		})
}
