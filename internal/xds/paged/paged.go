package paged

import "iter"

// A page has Size places: the lower Bits of a number say which.
const (
	Bits = 5
	Size = 1 << Bits
)

// Array is a sparse array with small numbers as indices: only pages that were written to exist. Callers may look at its pages, some
// of which are nil, and replace them.
type Array[T any] struct{ Pages []*[Size]T }

// At returns the place of a number, or nil if its page was never written to.
func (p *Array[T]) At(id uint32) *T {
	page := int(id >> Bits)
	if page >= len(p.Pages) || p.Pages[page] == nil {
		return nil
	}
	return &p.Pages[page][id%Size]
}

// Make returns the place of a number.
func (p *Array[T]) Make(id uint32) *T {
	page := int(id >> Bits)
	for page >= len(p.Pages) {
		p.Pages = append(p.Pages, nil)
	}
	if p.Pages[page] == nil {
		p.Pages[page] = new([Size]T)
	}
	return &p.Pages[page][id%Size]
}

// Each yields the places of all pages, by number.
func (p *Array[T]) Each() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, page := range p.Pages {
			if page == nil {
				continue
			}
			for i := range page {
				if !yield(&page[i]) {
					return
				}
			}
		}
	}
}
