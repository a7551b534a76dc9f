package platform

import (
	"time"

	"fairway/internal/source/budget"
)

// List is a whole list of a registry while it is read. Replace or Drop ends it.
type List[K comparable, R Record[K, R]] struct {
	of      *Book[K, R]
	records map[K]R
	ledger  *budget.Ledger[ServiceName]
}

// List begins a list. The Book must not change until it ends.
func (b *Book[K, R]) List() *List[K, R] {
	return &List[K, R]{of: b, records: make(map[K]R, len(b.listed)), ledger: b.ledger.Draft()}
}

// Add adds a record if there is room for it. If its key is listed twice, the last record counts. Add returns the record that is held: the
// older one if both are the same.
func (l *List[K, R]) Add(r R) R {
	k := r.Key()
	before, twice := l.records[k]
	if twice {
		l.of.charge(l.ledger, before, -1)
	}
	if !l.of.charge(l.ledger, r, 1) {
		if twice {
			l.of.charge(l.ledger, before, 1)
		}
		return r
	}
	if old, is := l.of.held(k); is && old.Same(r) {
		r = old // equal words are held once
	}
	l.records[k] = r
	return r
}

// Leave counts instances that are left out for a reason of the registry's own.
func (l *List[K, R]) Leave(n int) { l.ledger.Leave(n) }

// LeaveLarge counts a service as left out because its instances take too much memory.
func (l *List[K, R]) LeaveLarge(name ServiceName) {
	l.ledger.Set(name, budget.Cost{Bytes: l.of.Limits.Bounds().Bytes + 1})
}

// Drop ends a list that does not count. l may be nil.
func (l *List[K, R]) Drop() {
	if l != nil {
		l.ledger.Drop()
	}
}

// TooManyMissing reports whether a whole list that lacks so many of the held things looks like that of a server which lost what it knew:
// more than one thing, and more than half of all, is missing. This is the rule for every registry.
func TooManyMissing(held, missing int) bool { return missing > 1 && 2*missing > held }

// Replace makes a list the whole state of the registry. Instances that are missing from it go at once. They stay for Keep if lost is set,
// which means that the server may have lost them, or if the list has TooManyMissing.
func (b *Book[K, R]) Replace(l *List[K, R], lost bool, now time.Time) {
	var gone []K
	for k := range b.listed {
		if _, is := l.records[k]; !is {
			gone = append(gone, k)
		}
	}
	lost = (lost || TooManyMissing(len(b.listed), len(gone))) && b.Keep > 0
	l.ledger.Commit()
	b.ledger = l.ledger
	for _, k := range gone {
		r := b.listed[k]
		if b.unlist(k); !lost {
			b.touch(r)
			continue
		}
		if len(b.missing) == 0 {
			b.due = now.Add(b.Keep)
		}
		b.missing[k] = absent[R]{r, now}
	}
	for k, r := range l.records {
		if old, is := b.held(k); is && old.Same(r) {
			b.list(k, old)
			continue
		} else if is {
			b.unlist(k)
			b.touch(old)
		}
		b.list(k, r)
		b.enter(r)
	}
	for k, m := range b.missing { // after all that is listed, which comes first if there is little room
		if !b.charge(b.ledger, m.record, 1) {
			b.unlist(k)
			b.touch(m.record)
			b.ledger.Leave(-1) // servers do not have it
		}
	}
	for name, ports := range b.ports {
		if !b.chargePorts(name, ports) {
			b.dirty[name] = struct{}{}
		}
	}
	for name := range b.noRoom {
		b.dirty[name] = struct{}{}
	}
}
