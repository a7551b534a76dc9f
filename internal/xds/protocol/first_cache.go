package protocol

import (
	"hash/maphash"
	"slices"
	"sync"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
)

// firstCache has the first requests of a reconnecting fleet looked up once: many clients come back with the same names at the same
// versions, though in any order. If the lists of a request have the same sums as those of an earlier one, of the same type and the
// same stack, it leads to the same state. Only requests that left nothing to do are kept, and only until one of their shelves
// changes.
//
// Sums have 128 bits, under keys that each server draws anew: that two different lists have the same sum is a chance of
// one in 2^128, and a client that could bring it about would deceive itself alone. It is safe for concurrent use.
type firstCache struct {
	keys  [2]maphash.Seed
	few   int // names that a client reports, below which looking them up is as fast
	mu    sync.Mutex
	known map[firstRequest]*firstState
	on    map[*library.Shelf]map[firstRequest]struct{} // which of known rest on a shelf
	names int                                          // in all of them
}

// firstRequest has the sums of a first request's lists, in any order.
type firstRequest struct {
	typ       string
	subscribe listSum
	initial   listSum
}

// listSum is the sum of a list of names and versions.
type listSum struct {
	n    int
	a, b uint64
}

// firstState is the state of a subscription after its first request.
type firstState struct {
	stack    library.Stack
	slots    slots.Table // all pages are shared
	count    int         // names in them
	sum      uint64
	names    int
	wildcard bool
	answered bool
}

const (
	fewNames        = 32
	firstCacheNames = 1 << 18 // names that all states hold together
)

func newFirstCache() *firstCache {
	c := &firstCache{keys: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, few: fewNames}
	c.clear()
	return c
}

func (c *firstCache) clear() {
	c.known, c.on, c.names = map[firstRequest]*firstState{}, map[*library.Shelf]map[firstRequest]struct{}{}, 0
}

// sum returns the key of a first request; false: it is too small to be worth keeping.
func (c *firstCache) sum(r *wire.Request) (f firstRequest, ok bool) {
	if len(r.Initial) < c.few || len(r.Unsubscribe) > 0 {
		return f, false
	}
	f.typ = r.Type
	for _, name := range r.Subscribe {
		c.add(&f.subscribe, name, "")
	}
	for _, k := range r.Initial {
		c.add(&f.initial, k.Name, k.Version)
	}
	return f, true
}

func (c *firstCache) add(to *listSum, name, version string) {
	to.n++
	to.a += library.Mix(maphash.String(c.keys[0], name) + library.Mix(maphash.String(c.keys[0], version)))
	to.b += library.Mix(maphash.String(c.keys[1], name) + library.Mix(maphash.String(c.keys[1], version)))
}

func (c *firstCache) find(f firstRequest, k library.Stack) *firstState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.known[f]; found != nil && slices.Equal(found.stack, k) {
		return found
	}
	return nil
}

// keep adds the state after a first request. The library's lock is held, so that the shelves are still as they were.
func (c *firstCache) keep(f firstRequest, m *firstState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names+m.count > firstCacheNames {
		c.clear()
	}
	c.drop(f)
	c.known[f] = m
	c.names += m.count
	for _, s := range m.stack {
		if c.on[s] == nil {
			c.on[s] = map[firstRequest]struct{}{}
		}
		c.on[s][f] = struct{}{}
	}
}

// forget drops the states of shelves that changed. Its cost grows only with the states that it drops, and each is kept only once.
func (c *firstCache) forget(changed map[*library.Shelf]struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range changed {
		for f := range c.on[s] {
			c.drop(f)
		}
	}
}

func (c *firstCache) drop(f firstRequest) {
	m := c.known[f]
	if m == nil {
		return
	}
	c.names -= m.count
	delete(c.known, f)
	for _, s := range m.stack {
		if delete(c.on[s], f); len(c.on[s]) == 0 {
			delete(c.on, s)
		}
	}
}

// restoreFirst brings a subscription to the state that a request like its first one has led to before.
func (m *Machine) restoreFirst(s *sub, was *firstState) {
	s.slots = was.slots.Clone()
	s.sum, s.names, s.wildcard, s.answered = was.sum, was.names, was.wildcard, was.answered
	m.named += was.names
}

// cacheFirst keeps the state of a subscription after its first request, if that left nothing to do. Then it owes no answer, and all
// its names have numbers: a name that nothing is published under is queued. A state without shelves is not kept, since no
// change would drop it.
func (m *Machine) cacheFirst(s *sub, f firstRequest) {
	if len(s.queue) > 0 || len(s.stack) == 0 {
		return
	}
	f.typ = s.typ // the other is a part of the request
	s.slots.Share(m.shared.pages)
	m.shared.firsts.keep(f, &firstState{
		stack: s.stack, slots: s.slots.Clone(), count: f.initial.n,
		sum: s.sum, names: s.names, wildcard: s.wildcard, answered: s.answered,
	})
}

// Shared is the state that the machines of one server share: equal state of many clients is kept once, and equal requests of many
// clients are looked up once. It is safe for concurrent use.
type Shared struct {
	pages  *slots.Pool
	firsts *firstCache
}

// NewShared returns the shared state for the machines of a new server.
func NewShared() *Shared { return &Shared{pages: slots.NewPool(), firsts: newFirstCache()} }

// Forget drops the cached requests of shelves that a turn edits. It must be called for each turn, while no goroutine reads the
// library.
func (s *Shared) Forget(edited map[*library.Shelf]struct{}) { s.firsts.forget(edited) }
