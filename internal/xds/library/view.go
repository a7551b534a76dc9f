package library

import "strings"

// Wildcard is the name that clients use to ask for all resources.
const Wildcard = "*"

// View is what one proxy sees at one turn. It is valid only while the library's lock is held.
type View struct {
	Turn uint64
	at   *Attached
	lib  *Library
}

// Attached returns the shelves that the proxy sees. The pointer changes whenever these are replaced.
func (v *View) Attached() *Attached { return v.at }

// HasType reports whether there is, or was, anything of a type in the library.
func (v *View) HasType(typ string) bool { return v.lib.types[typ] }

// Find returns the entry of a name, or nil if there is none with a holder.
func (v *View) Find(name string) *Entry { return v.lib.names.find(name) }

// FindAll finds n names at once; those without an entry are nil.
func (v *View) FindAll(n int, name func(i int) string) []*Entry { return v.lib.names.entries(n, name) }

// Enter returns the entry of a name that a client uses, and makes it if there is none. The name may be a part of a request.
func (v *View) Enter(name string) *Entry {
	if e := v.Find(name); e != nil {
		return e
	}
	return v.lib.names.enter(strings.Clone(name))
}

// EnterAll returns the entries of the names in a request, and reports whether the wildcard is one of them.
func (v *View) EnterAll(names []string) (entries []*Entry, star bool) {
	if len(names) == 0 {
		return nil, false
	}
	entries = v.FindAll(len(names), func(i int) string { return names[i] })
	kept := entries[:0]
	for i, e := range entries {
		switch {
		case names[i] == Wildcard:
			star = true
		case e == nil:
			kept = append(kept, v.Enter(names[i]))
		default:
			kept = append(kept, e)
		}
	}
	return kept, star
}

// Stack is the shelves of one type that a proxy sees, lowest first.
type Stack []*Shelf

// Stack returns the shelves of a type, which may be none.
func (v *View) Stack(typ string) Stack { return v.at.Stack(typ) }

// Stack returns the shelves of a type, which may be none.
func (at *Attached) Stack(typ string) Stack { return at.stacks[typ] }

// Resolve returns the resource of a name, or nil: the highest shelf that has a row for it decides.
func (k Stack) Resolve(e *Entry) *Resource {
	for i := len(k) - 1; i >= 0; i-- {
		if r := k[i].row(e); r != nil && !r.isTombstone() {
			return r.res
		}
	}
	return nil
}

// Changed returns the last turn that changed a name on any of its shelves, as far as that is still known.
func (k Stack) Changed(e *Entry) (turn uint64) {
	for _, s := range k {
		if r := s.row(e); r != nil {
			turn = max(turn, r.turn)
		}
	}
	return turn
}

// Newest returns the last turn that changed any of the shelves.
func (k Stack) Newest() (turn uint64) {
	for _, s := range k {
		turn = max(turn, s.floor)
		if s.newest != nil {
			turn = max(turn, s.newest.turn)
		}
	}
	return turn
}

// Each calls fn with every name that a shelf of the stack holds, shelf by shelf, in the order of last change. A name
// that several shelves hold comes several times.
func (k Stack) Each(fn func(e *Entry)) {
	for _, s := range k {
		for r := s.oldest; r != nil; r = r.newer {
			if r.res != nil {
				fn(r.name)
			}
		}
	}
}

// Since calls fn with the names that changed after the cursor, and the turn of each change. It returns false, and may not have called fn,
// if the changes since then are no longer known.
func (k Stack) Since(cursor uint64, fn func(e *Entry, turn uint64)) bool {
	for _, s := range k {
		if s.floor > cursor {
			return false
		}
		first := s.newest
		for first != nil && first.turn > cursor {
			first = first.older
		}
		next := s.oldest
		if first != nil {
			next = first.newer
		}
		for ; next != nil; next = next.newer {
			fn(next.name, next.turn)
		}
	}
	return true
}

// Members calls fn with every virtual host of a route configuration; see Each.
func (k Stack) Members(of *Entry, fn func(e *Entry)) {
	for _, s := range k {
		for _, r := range s.members[of] {
			if r.res != nil {
				fn(r.name)
			}
		}
	}
}
