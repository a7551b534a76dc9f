package slots

import (
	"errors"
	"sync"
	"weak"

	"fairway/internal/xds/library"
)

// Pool finds pages of slots that are the same: most clients of a mesh hold much the same, in the same versions. It
// keeps no page alive. Pages in it are never modified. It is safe for concurrent use.
type Pool struct {
	mu    sync.Mutex
	pages map[uint64]weak.Pointer[Page] // by sum
	sweep int                           // the size at which unused pages are looked for
}

// fewPages is how many pages there may be before any is looked for.
const fewPages = 1024

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{pages: map[uint64]weak.Pointer[Page]{}, sweep: fewPages}
}

// same returns a page with the same content, which may be the given one; neither may be modified from now on.
func (p *Pool) same(page *Page) *Page {
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

// sumPage mixes the content of a page. It can ignore names, because different names have different resources, and a page that is
// found by the sum is compared.
func sumPage(page *Page) (sum uint64) {
	for i := range page {
		if sl := &page[i]; sl.Res != nil {
			sum = library.Mix(sum ^ sl.Res.Sum() ^ uint64(sl.Flags))
		} else {
			sum = sum*31 + uint64(sl.Flags)
		}
	}
	return sum
}

// Check returns an error if a page was modified since others may see it.
func (p *Pool) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sum, known := range p.pages {
		if page := known.Value(); page != nil && sumPage(page) != sum {
			return errors.New("a shared page was modified")
		}
	}
	return nil
}

// tidy removes the pages that are no longer in use.
func (p *Pool) tidy() {
	for sum, page := range p.pages {
		if page.Value() == nil {
			delete(p.pages, sum)
		}
	}
	p.sweep = max(fewPages, 2*len(p.pages))
}
