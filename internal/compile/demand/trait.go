package demand

import (
	"cmp"
	"fmt"
	"slices"
	"unique"

	"fairway/internal/mesh"
)

// Trait is a named property of a proxy. The resources of the proxies in a layer may differ by it. It has a value in a Placement, and a text
// in the names of shelves. The room that knows the property declares its trait, and a Source of its values.
type Trait[T comparable] struct{ core *trait }

// AnyTrait is a Trait of whatever type.
type AnyTrait interface{ erased() *trait }

type trait struct {
	name string
	text func(any) string
	zero any
	of   func(Placement) any // nil: the Placement has the value itself
	at   int                 // the value's place there
}

// mostStored is how many traits a Placement may have the values of.
const mostStored = 24

// stored are those traits, by their places. They are declared as the program starts, as variables of packages.
var stored []*trait

// NewTrait makes a trait. Different values must have different texts. A text that begins with "+" is joined to the one before it; others
// follow after a space. The zero value says nothing.
func NewTrait[T comparable](name string, text func(T) string) Trait[T] {
	if len(stored) == mostStored {
		panic("demand: there is no room for the trait " + name)
	}
	t := newTrait(name, text)
	t.core.at = len(stored)
	stored = append(stored, t.core)
	return t
}

// Derived makes a trait from the traits of a Placement.
func Derived[T comparable](name string, of func(Placement) T, text func(T) string) Trait[T] {
	t := newTrait(name, text)
	t.core.of = func(p Placement) any { return of(p) }
	return t
}

func newTrait[T comparable](name string, text func(T) string) Trait[T] {
	var zero T
	return Trait[T]{&trait{name: name, zero: zero, text: func(v any) string { return text(v.(T)) }}}
}

// At returns the value that a placement has.
func (t Trait[T]) At(p Placement) T { return t.core.in(p).value.(T) }

func (t Trait[T]) erased() *trait { return t.core }

// Of returns the value that the proxies of a view have.
func (t Trait[T]) Of(v View) (value T) {
	if v.values == (unique.Handle[values]{}) {
		return value
	}
	for _, c := range v.values.Value().cells {
		if c.trait == t.core {
			return c.value.(T)
		}
	}
	return value
}

// With returns the view of those proxies of v that have the value. The trait must not be one of v's.
func (t Trait[T]) With(v View, value T) View { return v.with(traitValue{t.core, value}) }

// Above returns the shelf above another for what differs for proxies that have the value.
func (t Trait[T]) Above(s mesh.Shelf, value T) mesh.Shelf {
	s.Part = join(s.Part, t.core.text(value))
	return s
}

// in returns what a placement says of the trait.
func (t *trait) in(p Placement) traitValue {
	if t.of != nil {
		return traitValue{t, t.of(p)}
	}
	if p.values != (unique.Handle[placed]{}) {
		if v := p.values.Value()[t.at]; v != nil {
			return traitValue{t, v}
		}
	}
	return traitValue{t, t.zero}
}

// placed are the values of a Placement, by the places of their traits. nil: the zero value.
type placed [mostStored]any

// traitValue is the value of one trait. It is comparable.
type traitValue struct {
	trait *trait
	value any
}

// isSet reports whether the value tells anything.
func (c traitValue) isSet() bool { return c.value != c.trait.zero }

func (c traitValue) text() string { return c.trait.text(c.value) }

// mostTraits is how many traits one view may have.
const mostTraits = 8

// values are the values of a view's traits. Values without a text that say nothing are left out, so equal views have equal values.
type values struct {
	part  string // what they are called
	cells [mostTraits]traitValue
}

// View is a layer for proxies with some values of some traits. It is small and comparable; the values are held once.
type View struct {
	Layer  mesh.Layer
	values unique.Handle[values] // zero: of no trait
}

func viewOf(l mesh.Layer, cells []traitValue) View {
	v := values{}
	n := 0
	for _, c := range cells {
		if text := c.text(); text != "" || c.isSet() {
			v.part, v.cells[n] = join(v.part, text), c
			n++
		}
	}
	if n == 0 {
		return View{Layer: l}
	}
	return View{l, unique.Make(v)}
}

func (v View) cells() []traitValue {
	if v.values == (unique.Handle[values]{}) {
		return nil
	}
	all := v.values.Value().cells
	n := slices.IndexFunc(all[:], func(c traitValue) bool { return c.trait == nil })
	if n < 0 {
		n = mostTraits
	}
	return all[:n]
}

func (v View) with(c traitValue) View { return viewOf(v.Layer, append(v.cells(), c)) }

// Without returns the view of proxies that differ in everything but some traits.
func (v View) Without(traits ...AnyTrait) View {
	return viewOf(v.Layer, slices.DeleteFunc(v.cells(), func(c traitValue) bool {
		return slices.ContainsFunc(traits, func(t AnyTrait) bool { return t.erased() == c.trait })
	}))
}

// In returns the view of the same values in another layer.
func (v View) In(l mesh.Layer) View {
	v.Layer = l
	return v
}

// Shelf returns the shelf for resources of the view.
func (v View) Shelf() mesh.Shelf {
	if v.values == (unique.Handle[values]{}) {
		return mesh.Shelf{Layer: v.Layer}
	}
	return mesh.Shelf{Layer: v.Layer, Part: v.values.Value().part}
}

func (v View) String() string { return v.Shelf().String() }

// CompareView orders by layer, then by what the values are called.
func CompareView(a, b View) int {
	if c := mesh.CompareLayer(a.Layer, b.Layer); c != 0 || a.values == b.values {
		return c
	}
	return cmp.Or(cmp.Compare(a.Shelf().Part, b.Shelf().Part), cmp.Compare(a.described(), b.described()))
}

// described returns a text that differs for views with the same name: texts of traits may be shorter than their values.
func (v View) described() string {
	out := ""
	for _, c := range v.cells() {
		out += fmt.Sprintf("%s=%#v ", c.trait.name, c.value)
	}
	return out
}

// join appends the text of a trait to those before it.
func join(part, text string) string {
	if part == "" || text == "" || text[0] == '+' {
		return part + text
	}
	return part + " " + text
}
