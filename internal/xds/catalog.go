package xds

import (
	"strings"
	"sync"
	"weak"
)

// entry is a name as the library and its streams know it: one for each name, whatever types have it, compared by
// address. Its number is small, so that what is known of many names lies in arrays. It is never modified.
type entry struct {
	id    uint32
	text  string
	owner *entry // of a virtual host's name, the route configuration's: see owner
}

func (e *entry) String() string { return e.text }

// catalog gives names their entries. It keeps no entry alive: who holds a number holds its entry, and numbers of
// entries that nobody holds are given out again. It is safe for concurrent use.
type catalog struct {
	mu    sync.RWMutex
	known map[string]listing
	free  []uint32
	next  uint32
	sweep int // the size at which entries that nobody holds are looked for
}

type listing struct {
	entry weak.Pointer[entry]
	id    uint32
}

const firstSweep = 1024

func newCatalog() *catalog { return &catalog{known: map[string]listing{}, sweep: firstSweep} }

// find returns the entry of a name, or nil if nobody holds one.
func (c *catalog) find(text string) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.known[text].entry.Value()
}

// entries finds n names at once; those without an entry are nil.
func (c *catalog) entries(n int, text func(i int) string) []*entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]*entry, n)
	for i := range out {
		out[i] = c.known[text(i)].entry.Value()
	}
	return out
}

// enter returns the entry of a name, which is made if need be. The string is kept.
func (c *catalog) enter(text string) *entry {
	if e := c.find(text); e != nil {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.make(text)
}

func (c *catalog) make(text string) *entry {
	l, listed := c.known[text]
	if e := l.entry.Value(); e != nil {
		return e
	}
	e := &entry{text: text}
	if o := owner(text); o != "" {
		e.owner = c.make(o)
		l, listed = c.known[text]
	}
	if !listed {
		if len(c.known) >= c.sweep {
			c.tidy()
		}
		l.id = c.number()
	}
	e.id = l.id
	c.known[text] = listing{entry: weak.Make(e), id: e.id}
	return e
}

func (c *catalog) number() uint32 {
	if n := len(c.free); n > 0 {
		id := c.free[n-1]
		c.free = c.free[:n-1]
		return id
	}
	c.next++
	return c.next - 1
}

// tidy forgets the entries that nobody holds.
func (c *catalog) tidy() {
	for text, l := range c.known {
		if l.entry.Value() == nil {
			delete(c.known, text)
			c.free = append(c.free, l.id)
		}
	}
	c.sweep = max(firstSweep, 2*len(c.known))
}

// maxSlashes bounds what a name may lead to, for clients choose names too.
const maxSlashes = 8

// owner returns the name of the route configuration that a virtual host belongs to: all before its last slash.
func owner(virtualHost string) string {
	at := strings.LastIndexByte(virtualHost, '/')
	if at <= 0 || strings.Count(virtualHost, "/") > maxSlashes {
		return ""
	}
	return virtualHost[:at]
}
