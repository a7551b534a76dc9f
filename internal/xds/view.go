package xds

import "strings"

// view is what one proxy sees at one turn. It is valid only while the library's lock is held.
type view struct {
	turn uint64
	at   *attached
}

// resolve returns the resource of a name, or nil: the highest shelf that has a row for it decides.
func (v *view) resolve(typ, name string) *Resource {
	stack := v.at.stacks[typ]
	for i := len(stack) - 1; i >= 0; i-- {
		if r := stack[i].rows[name]; r != nil && !r.dead() {
			return r.res
		}
	}
	return nil
}

// changed returns the last turn in which a name changed on any of its shelves, as far as that is still known.
func (v *view) changed(typ, name string) (turn uint64) {
	for _, s := range v.at.stacks[typ] {
		if r := s.rows[name]; r != nil {
			turn = max(turn, r.turn)
		}
	}
	return turn
}

// each calls fn with every name that a shelf of the stack holds, shelf by shelf, in the order of last change. A name
// that several shelves hold comes several times.
func (v *view) each(typ string, fn func(name string)) {
	for _, s := range v.at.stacks[typ] {
		for r := s.oldest; r != nil; r = r.newer {
			if r.res != nil {
				fn(r.name)
			}
		}
	}
}

// size is about the number of names of a type.
func (v *view) size(typ string) (n int) {
	for _, s := range v.at.stacks[typ] {
		n += s.live
	}
	return n
}

// since calls fn with the names that changed after the cursor, and the turn in which each did. It returns false, and
// may not have called fn, if the changes since then are no longer known.
func (v *view) since(typ string, cursor uint64, fn func(name string, turn uint64)) bool {
	for _, s := range v.at.stacks[typ] {
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

// members calls fn with every name of a type that begins with the prefix; see each.
func (v *view) members(typ, prefix string, fn func(name string)) {
	v.each(typ, func(name string) {
		if strings.HasPrefix(name, prefix) {
			fn(name)
		}
	})
}
