package table

import (
	"runtime/debug"
	"slices"
)

// group is a table of the rows of another one by group key.
type group[G, K comparable, V any] struct {
	*Table[G, Rows[K, V]]
	source *Table[K, V]
	groups func(k K, v V) []G
	edited []edited[G, K, V]
	failed map[K]*PanicError
}

// edited is a group that the turn edits, and what it was.
type edited[G, K comparable, V any] struct {
	cell *cell[G, Rows[K, V]]
	old  Rows[K, V]
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
	g := &group[G, K, V]{source: from, groups: groups}
	b := base{store: from.store, name: name, kind: KindGroup, from: from.name}
	g.Table = newTable(b, compare, Rows[K, V].same)
	g.members = g.membersOf
	from.store.declare(g)
	from.follow = append(from.follow, g.height)
	return g.Table
}

// settle moves what changed in the source into its groups.
func (g *group[G, K, V]) settle(t *turn) {
	for _, c := range g.source.changes {
		g.move(c, t)
	}
	for _, e := range g.edited {
		e.cell.marked = false
		g.finish(e)
	}
	g.edited = recycle(g.edited)
}

// move takes a row out of the groups it has left and puts it into those it is in.
func (g *group[G, K, V]) move(c change[K, V], t *turn) {
	var now []G
	var err *PanicError
	if c.cell.has {
		now, err = g.groupsOf(c.cell.key, c.cell.val)
	}
	if c.had {
		was, _ := g.groupsOf(c.cell.key, c.old)
		for _, gk := range was {
			if left := g.cells[gk]; left != nil && !slices.Contains(now, gk) {
				rows := g.edit(left)
				*rows = rows.without(g.store.version, c.cell.key)
			}
		}
	}
	for _, gk := range now {
		rows := g.edit(g.place(gk))
		*rows = rows.with(g.store.version, c.cell.key, c.cell.val, g.source.compare)
	}
	g.report(c.cell.key, err, t)
}

// groupsOf calls the user's function.
func (g *group[G, K, V]) groupsOf(k K, v V) (keys []G, err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, &PanicError{Table: g.name, Key: text(k), Value: p, Stack: string(debug.Stack())}
		}
	}()
	return g.groups(k, v), nil
}

func (g *group[G, K, V]) report(k K, err *PanicError, t *turn) {
	if err != nil {
		if g.failed == nil {
			g.failed = map[K]*PanicError{}
		}
		g.failed[k] = err
		t.Panics = append(t.Panics, err)
		g.store.notesChanged = true
	} else if g.failed[k] != nil {
		delete(g.failed, k)
		g.store.notesChanged = true
	}
}

// edit returns the rows of a group, to be replaced in this turn.
func (g *group[G, K, V]) edit(c *cell[G, Rows[K, V]]) *Rows[K, V] {
	if !c.marked {
		c.marked = true
		g.edited = append(g.edited, edited[G, K, V]{c, c.val, c.has})
	}
	return &c.val
}

// finish publishes an edited group.
func (g *group[G, K, V]) finish(e edited[G, K, V]) {
	c := e.cell
	c.has = c.val.Len() > 0
	if e.had != c.has || !c.val.same(e.old) {
		g.spread(c, e.old, e.had)
	}
}

// membersOf visits the cells of a group's members.
func (g *group[G, K, V]) membersOf(rows Rows[K, V], visit func(*head) bool) {
	for k := range rows.All() {
		if c := g.source.cells[k]; c != nil && !visit(&c.head) {
			return
		}
	}
}

func (g *group[G, K, V]) notes(yield func(Note) bool) bool {
	keys := make([]K, 0, len(g.failed))
	for k := range g.failed {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, g.source.compare)
	for _, k := range keys {
		if !yield(Note{g.name, text(k), g.failed[k]}) {
			return false
		}
	}
	return true
}
