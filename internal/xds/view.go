package xds

import "strings"

// wildcardName is the name by which clients ask for all there is.
const wildcardName = "*"

// view is what one proxy sees at one turn. It is valid only while the library's lock is held.
type view struct {
	turn uint64
	at   *attached
	lib  *Library
}

// attached returns which shelves the proxy sees. It is another one whenever these were replaced.
func (v *view) attached() *attached { return v.at }

// hasType tells whether there is, or was, anything of a type in the library.
func (v *view) hasType(typ string) bool { return v.lib.types[typ] }

// find returns the entry of a name, or nil if nobody holds one.
func (v *view) find(name string) *entry { return v.lib.names.find(name) }

// findAll finds n names at once; those without an entry are nil.
func (v *view) findAll(n int, name func(i int) string) []*entry { return v.lib.names.entries(n, name) }

// enter returns the entry of a name that a client uses, which is made if need be. The name may be a part of a request.
func (v *view) enter(name string) *entry {
	if e := v.find(name); e != nil {
		return e
	}
	return v.lib.names.enter(strings.Clone(name))
}

// enterAll returns the entries of the names in a request, and tells whether the wildcard is one of them.
func (v *view) enterAll(names []string) (entries []*entry, star bool) {
	if len(names) == 0 {
		return nil, false
	}
	entries = v.findAll(len(names), func(i int) string { return names[i] })
	kept := entries[:0]
	for i, e := range entries {
		switch {
		case names[i] == wildcardName:
			star = true
		case e == nil:
			kept = append(kept, v.enter(names[i]))
		default:
			kept = append(kept, e)
		}
	}
	return kept, star
}

// stack is the shelves of one type that a proxy sees, lowest first.
type stack []*shelf

// stack returns the shelves of a type, which may be none.
func (v *view) stack(typ string) stack { return v.at.stack(typ) }

// stack returns the shelves of a type, which may be none.
func (at *attached) stack(typ string) stack { return at.stacks[typ] }

// resolve returns the resource of a name, or nil: the highest shelf that has a row for it decides.
func (k stack) resolve(e *entry) *Resource {
	for i := len(k) - 1; i >= 0; i-- {
		if r := k[i].row(e); r != nil && !r.dead() {
			return r.res
		}
	}
	return nil
}

// changed returns the last turn in which a name changed on any of its shelves, as far as that is still known.
func (k stack) changed(e *entry) (turn uint64) {
	for _, s := range k {
		if r := s.row(e); r != nil {
			turn = max(turn, r.turn)
		}
	}
	return turn
}

// each calls fn with every name that a shelf of the stack holds, shelf by shelf, in the order of last change. A name
// that several shelves hold comes several times.
func (k stack) each(fn func(e *entry)) {
	for _, s := range k {
		for r := s.oldest; r != nil; r = r.newer {
			if r.res != nil {
				fn(r.name)
			}
		}
	}
}

// since calls fn with the names that changed after the cursor, and the turn in which each did. It returns false, and
// may not have called fn, if the changes since then are no longer known.
func (k stack) since(cursor uint64, fn func(e *entry, turn uint64)) bool {
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

// members calls fn with every virtual host of a route configuration; see each.
func (k stack) members(of *entry, fn func(e *entry)) {
	for _, s := range k {
		for _, r := range s.members[of] {
			if r.res != nil {
				fn(r.name)
			}
		}
	}
}
