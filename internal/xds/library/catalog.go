package library

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"weak"
)

// Entry is a name as the library and its streams know it: one for each name, whatever types have it, compared by address. Its number is
// small, so that arrays can be indexed by it. A name that only clients asked for has no number, so that the arrays of other clients do not
// grow with it.
type Entry struct {
	id    uint32 // or unnumbered; given once, under the library's lock
	text  string
	owner *Entry // of a virtual host's name, the route configuration's: see owner
}

// Unnumbered is the number of an entry without a number. No array reaches it.
const Unnumbered = math.MaxUint32

// Text returns the name.
func (e *Entry) Text() string { return e.text }

func (e *Entry) String() string { return e.text }

// ID returns the name's number, which is small, or Unnumbered. A name may get one at any turn, and keeps it.
func (e *Entry) ID() uint32 { return e.id }

// Owner returns the route configuration's entry of a virtual host's, or nil.
func (e *Entry) Owner() *Entry { return e.owner }

// catalog maps names to entries. It keeps no entry alive: a holder of a number must hold its entry. If an entry has no holder, its number
// is given out again. It is safe for concurrent use.
type catalog struct {
	mu         sync.RWMutex
	numbered   map[string]listing             // with numbers
	numberless map[string]weak.Pointer[Entry] // without
	most       int                            // numberless names at once, since their map was made
	free       []uint32
	next       uint32
	sweep      int // the size at which numbered entries without a holder are looked for
}

type listing struct {
	entry weak.Pointer[Entry]
	id    uint32
}

const firstSweep = 1024

func newCatalog() *catalog {
	return &catalog{numbered: map[string]listing{}, numberless: map[string]weak.Pointer[Entry]{}, sweep: firstSweep}
}

// find returns the entry of a name, or nil if there is none with a holder.
func (c *catalog) find(text string) *Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.look(text)
}

func (c *catalog) look(text string) *Entry {
	if e := c.numbered[text].entry.Value(); e != nil {
		return e
	}
	return c.numberless[text].Value()
}

// entries finds n names at once; those without an entry are nil.
func (c *catalog) entries(n int, text func(i int) string) []*Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]*Entry, n)
	for i := range out {
		out[i] = c.look(text(i))
	}
	return out
}

// enter returns the entry of a name that a client asks for. If there is none, it makes one without a number, and keeps the string.
func (c *catalog) enter(text string) *Entry {
	if e := c.find(text); e != nil {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.make(text)
}

func (c *catalog) make(text string) *Entry {
	if e := c.look(text); e != nil {
		return e
	}
	e := &Entry{id: Unnumbered, text: text}
	if o := owner(text); o != "" {
		e.owner = c.make(o)
	}
	c.numberless[text] = weak.Make(e)
	c.most = max(c.most, len(c.numberless))
	runtime.AddCleanup(e, c.forget, text)
	return e
}

// forget drops a name without a number if its entry has no holder any more.
func (c *catalog) forget(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.numberless[text].Value() != nil {
		return // it was asked for again meanwhile
	}
	delete(c.numberless, text)
	if c.most > firstSweep && len(c.numberless) < c.most/4 { // maps do not shrink
		left := make(map[string]weak.Pointer[Entry], len(c.numberless))
		for text, e := range c.numberless {
			left[text] = e
		}
		c.numberless, c.most = left, len(left)
	}
}

// publish returns the entry of a name that is published, or that a published resource refers to. The entry has a number from now on. The
// string is kept. The caller holds the library's lock, because streams read numbers under it.
func (c *catalog) publish(text string) *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number(text)
}

func (c *catalog) number(text string) *Entry {
	l, listed := c.numbered[text]
	if e := l.entry.Value(); e != nil {
		return e
	}
	e := c.numberless[text].Value()
	if e != nil {
		delete(c.numberless, text)
	} else {
		e = &Entry{text: text}
	}
	if o := owner(text); o != "" {
		e.owner = c.number(o)
		l, listed = c.numbered[text]
	}
	if !listed {
		if len(c.numbered) >= c.sweep {
			c.tidy()
		}
		l.id = c.unused()
	}
	e.id = l.id
	c.numbered[text] = listing{entry: weak.Make(e), id: e.id}
	return e
}

// unused returns a number that no entry has.
func (c *catalog) unused() uint32 {
	if n := len(c.free); n > 0 {
		id := c.free[n-1]
		c.free = c.free[:n-1]
		return id
	}
	c.next++
	return c.next - 1
}

// tidy drops the numbered entries without a holder.
func (c *catalog) tidy() {
	for text, l := range c.numbered {
		if l.entry.Value() == nil {
			delete(c.numbered, text)
			c.free = append(c.free, l.id)
		}
	}
	c.sweep = max(firstSweep, 2*len(c.numbered))
}

// size is how many names are known.
func (c *catalog) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.numbered) + len(c.numberless)
}

// maxSlashes limits the chain of owners that a name may have, because clients choose names too.
const maxSlashes = 8

// owner returns the name of the route configuration that a virtual host belongs to: all before its last slash.
func owner(virtualHost string) string {
	at := strings.LastIndexByte(virtualHost, '/')
	if at <= 0 || strings.Count(virtualHost, "/") > maxSlashes {
		return ""
	}
	return virtualHost[:at]
}
