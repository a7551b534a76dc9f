package demand

import (
	"fmt"

	"fairway/internal/compile/vouch"
	"fairway/internal/table"
)

// Source says what value of a trait a proxy has.
type Source struct {
	trait *trait
	of    func(*table.Reader, vouch.Proxy) any
	// chosen says that the value follows the proxy's own claims. even returns the part of it that a proxy chooses without labels of its
	// own; nil: none.
	chosen bool
	even   func(*table.Reader, vouch.Proxy) string
	// singular says that each value has resources of its own, which other proxies of the layer do not get.
	singular bool
}

// From makes a source. of returns the value that a proxy has.
func From[T comparable](t Trait[T], of func(*table.Reader, vouch.Proxy) T) Source {
	return Source{trait: t.core, of: func(r *table.Reader, p vouch.Proxy) any { return of(r, p) }}
}

// Chosen returns the source of a value that follows labels which proxies claim for themselves. The number of values that the proxies of one
// owner may choose is limited. Beyond the limit the value is that of a proxy that claims nothing.
func (s Source) Chosen() Source {
	s.chosen = true
	return s
}

// EvenBy is Chosen for a value that also follows other claims than labels. even returns the part of the value that follows these; empty:
// none.
func (s Source) EvenBy(even func(*table.Reader, vouch.Proxy) string) Source {
	s.chosen, s.even = true, even
	return s
}

// Singular returns a source with values that each have resources of their own, which other proxies of the layer do not get.
func (s Source) Singular() Source {
	s.singular = true
	return s
}

// choice returns the part of the value that a proxy chooses by its own claims; empty: nothing. labelled says whether its labels are such
// claims.
func (s Source) choice(r *table.Reader, p vouch.Proxy, labelled bool) string {
	switch {
	case !s.chosen:
		return ""
	case labelled:
		if c := (traitValue{s.trait, s.of(r, p)}); c.isSet() {
			return fmt.Sprintf("%s=%#v ", s.trait.name, c.value)
		}
	case s.even != nil:
		return s.even(r, p)
	}
	return ""
}

// values returns the values of a proxy. by is the proxy with only those of its claims that count.
func (t *Tables) values(r *table.Reader, p, by vouch.Proxy) (out placed) {
	for _, s := range t.sources {
		of := p
		if s.chosen {
			of = by
		}
		if c := (traitValue{s.trait, s.of(r, of)}); c.isSet() {
			out[s.trait.at] = c.value
		}
	}
	return out
}

// singular reports whether some resource is made for the proxy alone, or for proxies with the same claims.
func (t *Tables) singular(p Placement) bool {
	for _, s := range t.sources {
		if s.singular && s.trait.in(p).isSet() {
			return true
		}
	}
	return false
}

// String names the layer, then the values.
func (p Placement) String() string {
	part := ""
	for _, t := range stored {
		part = join(part, t.in(p).text())
	}
	return p.Layer.String() + "#" + part
}
