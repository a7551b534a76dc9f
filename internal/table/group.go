package table

import "slices"

// group is a table of the rows of another one by group key.
type group struct {
	core
	groups terms
	keys   bool // members are keys alone: a row that changes but stays in a group does not change the group
	edited []edited
}

// edited is a group that the turn edits, and its state before.
type edited struct {
	cell *cell
	old  *tree
	had  bool
}

// Group declares an index: a table of the rows of from by each key that groups
// returns for them. A group exists while it has members. It changes when a row
// joins, leaves or becomes different, at a cost logarithmic in its size. groups
// is a pure function; its result may repeat a key. If it panics, the row is in no group and carries a note of *PanicError.
func Group[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, groups func(k K, v V) []G,
) *Table[G, Rows[K, V]] {
	return declareGroup[G, K, V, V](from, name, compare, groups, false)
}

// Index is Group of the rows' keys alone: a group changes when a row joins or
// leaves it, not when one becomes different, and holds none of their values.
func Index[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, groups func(k K, v V) []G,
) *Table[G, Rows[K, struct{}]] {
	return declareGroup[G, K, V, struct{}](from, name, compare, groups, true)
}

// declareGroup declares a group that keeps an M for each of its rows.
func declareGroup[G comparable, K comparable, V, M any](
	from *Table[K, V], name string, compare func(a, b G) int, groups func(k K, v V) []G, keys bool,
) *Table[G, Rows[K, M]] {
	source := from.core
	g := &group{core: core{store: source.store, name: name, kind: KindGroup, from: source.name}, keys: keys}
	beginKeys[G, Rows[K, M]](&g.core, compare)
	g.values = groupValues
	g.groups = terms{table: &g.core, source: source, names: naming[K, V, G, Rows[K, M]](&g.core, groups)}
	g.members = g.membersOf
	source.store.declare(g)
	source.follow = append(source.follow, g.height)
	return &Table[G, Rows[K, M]]{core: &g.core}
}

// settle moves the changed rows of the source into their groups.
func (g *group) settle(t *turn) {
	for _, c := range g.groups.source.changes {
		g.move(c, t)
	}
	for _, e := range g.edited {
		e.cell.marked = false
		g.finish(e)
	}
	g.edited = recycle(g.edited)
}

// move takes a row out of the groups it has left and puts it into those it is in.
func (g *group) move(c change, t *turn) {
	was, now := g.groups.change(c, t)
	for _, left := range was {
		if !slices.Contains(now, left) {
			rows := g.edit(left)
			*rows = without(*rows, g.store.version, c.cell)
		}
	}
	for _, joined := range now {
		if g.keys && slices.Contains(was, joined) {
			continue
		}
		it := item{key: c.cell}
		if !g.keys {
			it.val = g.groups.source.values.clone(c.cell.val())
		}
		rows := g.edit(joined)
		*rows = with(*rows, g.store.version, it, g.groups.source)
	}
}

// edit returns a pointer to the rows of a group, so that this turn can replace them.
func (g *group) edit(c *cell) **tree {
	rows := treeOf(c.val())
	if !c.marked {
		c.marked = true
		g.edited = append(g.edited, edited{c, *rows, c.has})
	}
	return rows
}

// finish publishes an edited group.
func (g *group) finish(e edited) {
	now := *treeOf(e.cell.val())
	e.cell.has = now != nil
	if e.had == e.cell.has && now == e.old {
		return
	}
	var old value
	if e.had {
		old = boxed(e.old)
	}
	g.propagate(e.cell, old)
}

// membersOf visits the cells of a group's members.
func (g *group) membersOf(_ *Tx, c *cell, visit func(*cell) bool) {
	(*treeOf(c.val())).all(func(it item) bool { return visit(it.key) })
}

func (g *group) notes() func(yield func(Note) bool) bool { return g.groups.notes() }
