package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// group is a table of the rows of another one by group key.
type group struct {
	core
	groups cells.Terms
	keys   bool // members are keys alone: a row that changes but stays in a group does not change the group
	edited []edited
}

// edited is a group that the turn edits, and its state before.
type edited struct {
	cell *cells.Cell
	old  *cells.Tree
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
	g := &group{core: core{Table: cells.Table{Name: name}, store: source.store, kind: KindGroup, from: source.Name}, keys: keys}
	cells.BeginKeys[G, Rows[K, M]](&g.Table, compare)
	g.Values = cells.GroupValues
	g.groups = cells.Terms{Table: &g.Table, Source: &source.Table, Names: cells.Naming[K, V, G, Rows[K, M]](&g.Table, groups)}
	g.members = g.membersOf
	source.store.declare(g)
	source.follow = append(source.follow, g.Height)
	return &Table[G, Rows[K, M]]{core: &g.core}
}

// settle moves the changed rows of the source into their groups.
func (g *group) settle(t *turn) {
	for _, c := range g.groups.Source.Changes {
		g.move(c, t)
	}
	for _, e := range g.edited {
		e.cell.Marked = false
		g.finish(e)
	}
	g.edited = cells.Recycle(g.edited)
}

// move takes a row out of the groups it has left and puts it into those it is in.
func (g *group) move(c cells.Change, t *turn) {
	was, now := g.namedKeys(&g.groups, c, t)
	for _, left := range was {
		if !slices.Contains(now, left) {
			rows := g.edit(left)
			*rows = cells.Without(*rows, g.store.version, c.Cell)
		}
	}
	for _, joined := range now {
		if g.keys && slices.Contains(was, joined) {
			continue
		}
		it := cells.Item{Key: c.Cell}
		if !g.keys {
			it.Val = g.groups.Source.Values.Clone(c.Cell.Val())
		}
		rows := g.edit(joined)
		*rows = cells.With(*rows, g.store.version, it, g.groups.Source)
	}
}

// edit returns a pointer to the rows of a group, so that this turn can replace them.
func (g *group) edit(c *cells.Cell) **cells.Tree {
	rows := cells.TreeOf(c.Val())
	if !c.Marked {
		c.Marked = true
		g.edited = append(g.edited, edited{c, *rows, c.Has})
	}
	return rows
}

// finish publishes an edited group.
func (g *group) finish(e edited) {
	now := *cells.TreeOf(e.cell.Val())
	e.cell.Has = now != nil
	if e.had == e.cell.Has && now == e.old {
		return
	}
	var old cells.Value
	if e.had {
		old = cells.Boxed(e.old)
	}
	g.propagate(e.cell, old)
}

// membersOf visits the cells of a group's members.
func (g *group) membersOf(_ *Tx, c *cells.Cell, visit func(*cells.Cell) bool) {
	(*cells.TreeOf(c.Val())).All(func(it cells.Item) bool { return visit(it.Key) })
}

func (g *group) notes() func(yield func(Note) bool) bool { return panicsOf(&g.groups) }
