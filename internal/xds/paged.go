package xds

import "iter"

const (
	pageBits = 5
	pageSize = 1 << pageBits
)

// paged is an array by small numbers, of which only the pages exist that were written to.
type paged[T any] struct{ pages []*[pageSize]T }

// at returns the place of a number, or nil if its page was never written to.
func (p *paged[T]) at(id uint32) *T {
	page := int(id >> pageBits)
	if page >= len(p.pages) || p.pages[page] == nil {
		return nil
	}
	return &p.pages[page][id%pageSize]
}

// make returns the place of a number.
func (p *paged[T]) make(id uint32) *T {
	page := int(id >> pageBits)
	for page >= len(p.pages) {
		p.pages = append(p.pages, nil)
	}
	if p.pages[page] == nil {
		p.pages[page] = new([pageSize]T)
	}
	return &p.pages[page][id%pageSize]
}

// each yields the places of all pages, by number.
func (p *paged[T]) each() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, page := range p.pages {
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
