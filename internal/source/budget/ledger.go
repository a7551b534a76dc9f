package budget

import "math"

// packed is a Cost in half of the memory: there is one for each thing that a source keeps.
type packed struct{ bytes, things, endpoints, ports uint32 }

func pack(c Cost) packed {
	part := func(n int64) uint32 { return uint32(min(max(0, n), math.MaxUint32)) }
	return packed{part(c.Bytes), part(int64(c.Things)), part(int64(c.Endpoints)), part(int64(c.Ports))}
}

func (p packed) cost() Cost {
	return Cost{int64(p.bytes), int(p.things), int(p.endpoints), int(p.ports)}
}

// Ledger knows what each key of one kind costs, and charges it to an account. It belongs to one goroutine; several ledgers may share
// an account.
type Ledger[K comparable] struct {
	account *Account
	costs   map[K]packed
	total   Cost
	left    int64

	// Only in a draft.
	old *Ledger[K] // the ledger that the draft replaces; nil: this is not a draft
}

// NewLedger returns an empty ledger of an account.
func NewLedger[K comparable](a *Account) *Ledger[K] {
	return &Ledger[K]{account: a, costs: map[K]packed{}}
}

// Set charges what a key costs, in place of what it cost before. It returns false if that does not fit: then the earlier charge
// stays, and the caller should keep the earlier value of the key.
func (l *Ledger[K]) Set(key K, c Cost) bool {
	is := pack(c)
	next := l.total.less(l.costs[key].cost()).And(is.cost())
	if !l.account.change(l.charged(l.total), l.charged(next), false) {
		l.Leave(1)
		return false
	}
	l.total, l.costs[key] = next, is
	return true
}

// Leave counts things that are left out for a reason of the source's own.
func (l *Ledger[K]) Leave(n int) {
	l.left += int64(n)
	if l.old == nil {
		l.account.leave(int64(n))
	}
}

// Remove gives back what a key costs. A key that costs nothing changes nothing.
func (l *Ledger[K]) Remove(key K) {
	c, has := l.costs[key]
	if !has {
		return
	}
	next := l.total.less(c.cost())
	l.account.change(l.charged(l.total), l.charged(next), true)
	delete(l.costs, key)
	l.total = next
}

// charged returns how much of a total the account is charged: for a draft, only what exceeds the ledger that it replaces.
func (l *Ledger[K]) charged(total Cost) Cost {
	if l.old == nil {
		return total
	}
	return most(total, l.old.total).less(l.old.total)
}

// Left returns how many charges of this ledger did not fit.
func (l *Ledger[K]) Left() int { return int(l.left) }

// Begin resets the count of things that were left out, because everything is about to be listed again.
func (l *Ledger[K]) Begin() {
	if l.old == nil {
		l.account.leave(-l.left)
	}
	l.left = 0
}

// Draft returns an empty ledger for a whole list. It is charged only for what exceeds the total of l. The caller ends it with
// Commit or Drop, and changes nothing of l until then.
func (l *Ledger[K]) Draft() *Ledger[K] {
	return &Ledger[K]{account: l.account, costs: map[K]packed{}, old: l}
}

// Commit puts a draft in the place of the ledger that it was made of, which must not be used any more. If l is not a draft, Commit does
// nothing.
func (l *Ledger[K]) Commit() {
	old := l.old
	if old == nil {
		return
	}
	charged := l.charged(l.total)
	l.old = nil
	l.account.change(old.total.And(charged), l.total, true)
	l.account.leave(l.left - old.left)
	old.costs, old.total, old.left = nil, Cost{}, 0
}

// Drop gives back all that a ledger, or a draft, has charged. It must not be used any more.
func (l *Ledger[K]) Drop() {
	l.account.change(l.charged(l.total), Cost{}, true)
	if l.old != nil {
		l.left = 0 // that of a draft counts once it is committed
	}
	l.account.leave(-l.left)
	l.costs, l.total, l.left, l.old = nil, Cost{}, 0, nil
}

// Of returns the charge of a key.
func (l *Ledger[K]) Of(key K) Cost { return l.costs[key].cost() }
