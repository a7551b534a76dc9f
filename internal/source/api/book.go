package api

import (
	"slices"
	"time"
)

// key names a stored service or object. It is comparable.
type key struct {
	kind            string // of an object; empty: it is a service
	namespace, name string
}

// path returns the path of a thing in the API, without the leading /v1/. It names the place of its problems, and its
// shard.
func (k key) path() string {
	if k.kind == "" {
		return "services/" + k.namespace + "/" + k.name
	}
	return "objects/" + k.kind + "/" + k.namespace + "/" + k.name
}

// entry is the newest version of one thing, or that it is gone. It is immutable.
type entry struct {
	key       key
	revision  uint64
	body      []byte // nil: it is gone
	instances int    // that a service has
	ports     int    // that it has
}

// mostGone is how many things that are gone are remembered.
const mostGone = 10_000

// book has the newest version of everything in order of last change, and what went last. It is guarded by its owner.
type book struct {
	entries  map[key]*entry
	order    []place
	holes    int // places of what has changed since
	gone     []*entry
	revision uint64 // of the last change
	floor    uint64 // what went up to here may be forgotten

	services, instances, objects, ports int
	bytes                               int64
}

// place is one in the order of changes; entry is nil where another version came later.
type place struct {
	revision uint64
	entry    *entry
}

// newBook begins with a revision above those that earlier books of this machine had, so that what a client remembers of
// one is never taken for this one's: microseconds go faster than changes do. They fit into the numbers of any JSON.
func newBook(now time.Time) *book {
	revision := uint64(max(now.UnixMicro(), 1))
	return &book{entries: map[key]*entry{}, revision: revision, floor: revision}
}

// get returns the stored entry, or nil.
func (b *book) get(k key) *entry {
	if e := b.entries[k]; e != nil && e.body != nil {
		return e
	}
	return nil
}

// put takes a new version, which has no revision yet; with a nil body the thing goes.
func (b *book) put(e entry) *entry {
	e.revision = b.revision + 1
	b.restore(&e)
	return &e
}

// restore takes a version with its revision, which is the newest of all.
func (b *book) restore(e *entry) {
	if before := b.entries[e.key]; before != nil {
		b.leave(before)
		b.count(before, -1)
	}
	b.revision = max(b.revision, e.revision)
	b.entries[e.key] = e
	b.order = append(b.order, place{e.revision, e})
	b.count(e, 1)
	if e.body != nil {
		return
	}
	for b.gone = append(b.gone, e); len(b.gone) > mostGone; b.gone = b.gone[1:] {
		oldest := b.gone[0]
		if b.entries[oldest.key] == oldest {
			b.leave(oldest)
			delete(b.entries, oldest.key)
		}
		b.floor = oldest.revision
	}
}

func (b *book) count(e *entry, sign int) {
	if e.body == nil {
		return
	}
	b.bytes += int64(sign) * int64(len(e.body))
	b.instances += sign * e.instances
	b.ports += sign * e.ports
	if e.key.kind == "" {
		b.services += sign
	} else {
		b.objects += sign
	}
}

// leave makes a hole of an entry's place, and closes the holes if there are many.
func (b *book) leave(e *entry) {
	b.order[b.after(e.revision-1)].entry = nil
	if b.holes++; b.holes > 1024 && b.holes > len(b.order)/2 {
		b.order = slices.DeleteFunc(b.order, func(p place) bool { return p.entry == nil })
		b.holes = 0
	}
}

// after returns the first place behind a revision.
func (b *book) after(revision uint64) int {
	at, _ := slices.BinarySearchFunc(b.order, revision, func(p place, revision uint64) int {
		if p.revision <= revision {
			return -1
		}
		return 1
	})
	return at
}

// since returns the changes after a revision, the oldest first, and the revision that they are complete to. It
// returns at most so many entries, with so many bytes together, but at least one if there is any.
func (b *book) since(revision uint64, most, bytes int, wanted func(*entry) bool) (out []*entry, to uint64) {
	for _, p := range b.order[b.after(revision):] {
		if p.entry == nil || !wanted(p.entry) {
			continue
		}
		if bytes -= len(p.entry.body); len(out) > 0 && (len(out) == most || bytes < 0) {
			return out, out[len(out)-1].revision
		}
		out = append(out, p.entry)
	}
	return out, b.revision
}

// all returns the stored entries, in order of last change.
func (b *book) all() []*entry {
	out := make([]*entry, 0, len(b.entries))
	for _, p := range b.order {
		if p.entry != nil && p.entry.body != nil {
			out = append(out, p.entry)
		}
	}
	return out
}
