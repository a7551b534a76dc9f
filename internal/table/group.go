package table

import "slices"

// group is a table of the rows of another one by group key. What of a row stands in it is M.
type group[G, K comparable, V, M any] struct {
	body[G, Rows[K, M]]
	groups terms[K, V, G]
	member func(V) M
	keys   bool // M says nothing: a row that stays in a group does not change it
	edited []edited[G, K, M]
}

// edited is a group that the turn edits, and what it was.
type edited[G, K comparable, M any] struct {
	cell *cell[G, Rows[K, M]]
	old  Rows[K, M]
	had  bool
}

// Group declares an index: a table of the rows of from by each key that groups
// returns for them. A group exists while it has members. It changes when a row
// joins, leaves or becomes different, at a cost logarithmic in its size. groups
// is a pure function; what it returns may repeat a key. If it panics, the row is
// in no group and carries a note of *PanicError.
func Group[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, groups func(k K, v V) []G,
) *Table[G, Rows[K, V]] {
	return declareGroup(from, name, compare, groups, func(v V) V { return v }, false)
}

// Index is Group of the rows' keys alone: a group changes when a row joins or
// leaves it, not when one becomes different, and holds none of their values.
func Index[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, groups func(k K, v V) []G,
) *Table[G, Rows[K, struct{}]] {
	return declareGroup(from, name, compare, groups, func(V) struct{} { return struct{}{} }, true)
}

func declareGroup[G comparable, K comparable, V, M any](
	from *Table[K, V], name string, compare func(a, b G) int, groups func(k K, v V) []G, member func(V) M, keys bool,
) *Table[G, Rows[K, M]] {
	source := of(from)
	g := &group[G, K, V, M]{member: member, keys: keys}
	b := base{store: source.store, name: name, kind: KindGroup, from: source.name}
	g.begin(b, compare, Rows[K, M].same)
	g.groups = terms[K, V, G]{table: &g.base, source: source, fn: groups}
	g.members = g.membersOf
	source.store.declare(g)
	source.follow = append(source.follow, g.height)
	return handle(&g.body)
}

// settle moves what changed in the source into its groups.
func (g *group[G, K, V, M]) settle(t *turn) {
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
func (g *group[G, K, V, M]) move(c change[K, V], t *turn) {
	was, now := g.groups.change(c, t)
	for _, gk := range was {
		if left := g.cells[gk]; left != nil && !slices.Contains(now, gk) {
			rows := g.edit(left)
			*rows = without(*rows, g.store.version, c.cell.key)
		}
	}
	for _, gk := range now {
		if g.keys && slices.Contains(was, gk) {
			continue
		}
		rows := g.edit(g.place(gk))
		*rows = with(*rows, g.store.version, c.cell.key, g.member(c.cell.val), g.groups.source.compare)
	}
}

// edit returns the rows of a group, to be replaced in this turn.
func (g *group[G, K, V, M]) edit(c *cell[G, Rows[K, M]]) *Rows[K, M] {
	if !c.marked {
		c.marked = true
		g.edited = append(g.edited, edited[G, K, M]{c, c.val, c.has})
	}
	return &c.val
}

// finish publishes an edited group.
func (g *group[G, K, V, M]) finish(e edited[G, K, M]) {
	c := e.cell
	c.has = c.val.Len() > 0
	if e.had != c.has || !c.val.same(e.old) {
		g.spread(c, e.old, e.had)
	}
}

// membersOf visits the cells of a group's members.
func (g *group[G, K, V, M]) membersOf(_ *Tx, c *cell[G, Rows[K, M]], visit func(*head) bool) {
	for k := range c.val.All() {
		if c := g.groups.source.cells[k]; c != nil && !visit(&c.head) {
			return
		}
	}
}

func (g *group[G, K, V, M]) notes() func(yield func(Note) bool) bool { return g.groups.notes() }
