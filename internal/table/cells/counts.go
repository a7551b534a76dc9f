package cells

// Counts keeps the counts of the keys of a table (Cell.Named): how often rows of its source name each. A key has a row while its count is
// above 0.
type Counts struct {
	edited []*Cell // keys whose count the turn changes
}

// Move adds 1 for each of the keys in now, and takes 1 away for each key in was.
func (n *Counts) Move(was, now []*Cell) {
	for _, k := range now {
		n.edit(k)
		k.Named++
	}
	for _, k := range was {
		if k.Named > 0 {
			n.edit(k)
			k.Named--
		}
	}
}

// Clear sets the counts of all keys of a table to 0.
func (n *Counts) Clear(keys *Set) {
	for k := range keys.All {
		n.edit(k)
		k.Named = 0
	}
}

// edit registers a key to be checked at the end of the turn.
func (n *Counts) edit(c *Cell) {
	if !c.Marked {
		c.Marked = true
		n.edited = append(n.edited, c)
	}
}

// Crossed yields the keys that are named for the first time and have no row yet, and those that are no longer named and still have one. It
// ends the turn's counting: range over all of it, once a turn.
func (n *Counts) Crossed(yield func(*Cell) bool) {
	for _, c := range n.edited {
		c.Marked = false
		if (c.Named > 0) != c.Has {
			yield(c)
		}
	}
	n.edited = Recycle(n.edited)
}
