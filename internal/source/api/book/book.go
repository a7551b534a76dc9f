package book

import (
	"slices"
	"time"
)

// Key names a stored service or object. It is comparable.
type Key struct {
	Kind            string // of an object; empty: it is a service
	Namespace, Name string
}

// Path returns the path of a thing in the API, without the leading /v1/. It names the place of its problems, and its shard.
func (k Key) Path() string {
	if k.Kind == "" {
		return "services/" + k.Namespace + "/" + k.Name
	}
	return "objects/" + k.Kind + "/" + k.Namespace + "/" + k.Name
}

// Entry is the newest version of one thing, or its removal. It must not be changed once it is in a book.
type Entry struct {
	Key       Key
	Revision  uint64
	Body      []byte // nil: it is gone
	Instances int    // that a service has
	Ports     int    // that it has
}

// mostGone is how many things that are gone are remembered.
const mostGone = 10_000

// Book has the newest version of everything in order of last change, and the last removals. Its owner guards it by a lock.
type Book struct {
	entries  map[Key]*Entry
	order    []place
	holes    int // places of what has changed since
	gone     []*Entry
	revision uint64 // of the last change
	floor    uint64 // what went up to here may be forgotten

	amount Amount // of what is not gone
}

// Amount counts the stored things that have bounds.
type Amount struct {
	Services, Instances, Ports, Objects int
	Bytes                               int64
}

// Things returns the number of services and objects.
func (a Amount) Things() int { return a.Services + a.Objects }

// Add adds an entry, or takes it away if sign is -1.
func (a *Amount) Add(e *Entry, sign int) {
	if e == nil || e.Body == nil {
		return
	}
	a.Instances += sign * e.Instances
	a.Ports += sign * e.Ports
	a.Bytes += int64(sign * len(e.Body))
	if e.Key.Kind == "" {
		a.Services += sign
	} else {
		a.Objects += sign
	}
}

// place is one in the order of changes; entry is nil where another version came later.
type place struct {
	revision uint64
	entry    *Entry
}

// New returns an empty book. Its first revision is the time in microseconds, which is above the revisions of earlier books of this machine,
// because microseconds go faster than changes do. So a revision that a client got from an earlier book is never valid here by mistake. The
// numbers fit into those of any JSON.
func New(now time.Time) *Book {
	revision := uint64(max(now.UnixMicro(), 1))
	return &Book{entries: map[Key]*Entry{}, revision: revision, floor: revision}
}

// Revision returns the revision of the last change.
func (b *Book) Revision() uint64 { return b.revision }

// Floor returns the revision that removals are forgotten up to: a reader that knows less has to read everything again.
func (b *Book) Floor() uint64 { return b.floor }

// Amount returns how much is stored.
func (b *Book) Amount() Amount { return b.amount }

// IsEmpty reports whether the book remembers nothing, not even things that are gone.
func (b *Book) IsEmpty() bool { return len(b.entries) == 0 }

// Get returns the stored entry; nil if there is none, or if it was removed.
func (b *Book) Get(k Key) *Entry {
	if e := b.entries[k]; e != nil && e.Body != nil {
		return e
	}
	return nil
}

// Put stores a new version and returns it with its revision. An entry with a nil body removes the thing.
func (b *Book) Put(e Entry) *Entry {
	e.Revision = b.revision + 1
	b.restore(&e)
	return &e
}

// restore takes a version with its revision, which is the newest of all.
func (b *Book) restore(e *Entry) {
	if before := b.entries[e.Key]; before != nil {
		b.leave(before)
		b.amount.Add(before, -1)
	}
	b.revision = max(b.revision, e.Revision)
	b.entries[e.Key] = e
	b.order = append(b.order, place{e.Revision, e})
	b.amount.Add(e, 1)
	if e.Body != nil {
		return
	}
	for b.gone = append(b.gone, e); len(b.gone) > mostGone; b.gone = b.gone[1:] {
		oldest := b.gone[0]
		if b.entries[oldest.Key] == oldest {
			b.leave(oldest)
			delete(b.entries, oldest.Key)
		}
		b.floor = oldest.Revision
	}
}

// Measure sets the instances and ports of an entry of a book that OpenJournal returned, because a journal has only bodies. It must be
// called before others read the book.
func (b *Book) Measure(e *Entry, instances, ports int) {
	b.amount.Add(e, -1)
	e.Instances, e.Ports = instances, ports
	b.amount.Add(e, 1)
}

// leave makes a hole of an entry's place, and closes the holes if there are many.
func (b *Book) leave(e *Entry) {
	b.order[b.after(e.Revision-1)].entry = nil
	if b.holes++; b.holes > 1024 && b.holes > len(b.order)/2 {
		b.order = slices.DeleteFunc(b.order, func(p place) bool { return p.entry == nil })
		b.holes = 0
	}
}

// after returns the first place behind a revision.
func (b *Book) after(revision uint64) int {
	at, _ := slices.BinarySearchFunc(b.order, revision, func(p place, revision uint64) int {
		if p.revision <= revision {
			return -1
		}
		return 1
	})
	return at
}

// Since returns the wanted changes after a revision, the oldest first, and the revision up to which they are complete. It returns at most
// most entries, with at most bytes bytes together, but at least one if there is any.
func (b *Book) Since(revision uint64, most, bytes int, wanted func(*Entry) bool) (out []*Entry, to uint64) {
	for _, p := range b.order[b.after(revision):] {
		if p.entry == nil || !wanted(p.entry) {
			continue
		}
		if bytes -= len(p.entry.Body); len(out) > 0 && (len(out) == most || bytes < 0) {
			return out, out[len(out)-1].Revision
		}
		out = append(out, p.entry)
	}
	return out, b.revision
}

// All returns the stored entries, in order of last change, without removals.
func (b *Book) All() []*Entry {
	out := make([]*Entry, 0, len(b.entries))
	for _, p := range b.order {
		if p.entry != nil && p.entry.Body != nil {
			out = append(out, p.entry)
		}
	}
	return out
}

// Content returns everything that the book remembers, for Journal.Flush: the entries in order of last change, removals too.
func (b *Book) Content() (entries []*Entry, floor, revision uint64) {
	entries = make([]*Entry, 0, len(b.order)-b.holes)
	for _, p := range b.order {
		if p.entry != nil {
			entries = append(entries, p.entry)
		}
	}
	return entries, b.floor, b.revision
}
