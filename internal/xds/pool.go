package xds

import (
	"errors"
	"sync"
	"weak"
)

// pagePool finds pages of slots that are the same: most clients of a mesh hold much the same, in the same versions. It
// keeps no page alive. Pages in it are never modified. It is safe for concurrent use.
type pagePool struct {
	mu    sync.Mutex
	pages map[uint64]weak.Pointer[slotPage] // by sum
	sweep int                               // the size at which pages that nobody holds are looked for
}

// fewPages is how many pages there may be before any is looked for.
const fewPages = 1024

func newPagePool() *pagePool {
	return &pagePool{pages: map[uint64]weak.Pointer[slotPage]{}, sweep: fewPages}
}

// same returns a page with the same content, which may be the given one; neither may be modified from now on.
func (p *pagePool) same(page *slotPage) *slotPage {
	sum := sumPage(page)
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.pages[sum].Value(); known != nil && *known == *page {
		return known
	}
	if len(p.pages) >= p.sweep {
		p.tidy()
	}
	p.pages[sum] = weak.Make(page)
	return page
}

// sumPage mixes what a page holds. Names need not be looked at: resources have different ones, and what is found by
// the sum is compared.
func sumPage(page *slotPage) (sum uint64) {
	for i := range page {
		if sl := &page[i]; sl.res != nil {
			sum = scramble(sum ^ sl.res.Sum() ^ uint64(sl.flags))
		} else {
			sum = sum*31 + uint64(sl.flags)
		}
	}
	return sum
}

// check returns an error if a page was modified since others may see it.
func (p *pagePool) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sum, known := range p.pages {
		if page := known.Value(); page != nil && sumPage(page) != sum {
			return errors.New("a shared page was modified")
		}
	}
	return nil
}

// tidy forgets the pages that nobody holds.
func (p *pagePool) tidy() {
	for sum, page := range p.pages {
		if page.Value() == nil {
			delete(p.pages, sum)
		}
	}
	p.sweep = max(fewPages, 2*len(p.pages))
}
