package table

import "slices"

// keys is a table of the keys that the rows of another one name. It counts how often a key is named, and keeps no list of the rows: its
// memory is that of the keys.
type keys[G, K comparable, V any] struct {
	body[G, struct{}]
	names  terms[K, V, G]
	edited []*cell[G, struct{}] // keys whose count the turn changes
}

// Keys declares the table of the distinct keys that names returns for the rows of
// from. A key is in it while at least one row names it. The table changes when the
// first row names a key and when the last one stops, however many rows there are
// between. names is a pure function; what it returns may repeat a key. If it
// panics, the row names nothing and carries a note of *PanicError.
//
// Use Group or Index if the rows behind a key are of interest.
func Keys[G comparable, K comparable, V any](
	from *Table[K, V], name string, compare func(a, b G) int, names func(k K, v V) []G,
) *Table[G, struct{}] {
	source := of(from)
	t := &keys[G, K, V]{}
	t.begin(base{store: source.store, name: name, kind: KindKeys, from: source.name}, compare, Same[struct{}])
	t.names = terms[K, V, G]{table: &t.base, source: source, fn: names}
	t.members = t.membersOf
	source.store.declare(t)
	source.follow = append(source.follow, t.height)
	return handle(&t.body)
}

// settle counts what the changed rows of the source name, and publishes the keys that are named for the first time or not any more.
func (t *keys[G, K, V]) settle(turn *turn) {
	for _, c := range t.names.source.changes {
		was, now := t.names.change(c, turn)
		if slices.Equal(was, now) {
			continue
		}
		for _, k := range now {
			c := t.place(k)
			t.edit(c)
			c.named++
		}
		for _, k := range was {
			if c := t.cells[k]; c != nil && c.named > 0 {
				t.edit(c)
				c.named--
			}
		}
	}
	for _, c := range t.edited {
		c.marked = false
		switch named := c.named > 0; {
		case named && !c.has:
			t.put(c, struct{}{})
		case !named && c.has:
			t.drop(c)
		}
	}
	t.edited = recycle(t.edited)
}

// edit has the end of the turn look at a key.
func (t *keys[G, K, V]) edit(c *cell[G, struct{}]) {
	if !c.marked {
		c.marked = true
		t.edited = append(t.edited, c)
	}
}

// membersOf visits the cells of the rows that name a key.
func (t *keys[G, K, V]) membersOf(tx *Tx, c *cell[G, struct{}], visit func(*head) bool) {
	naming := slices.Clone(t.naming(tx)[c.key])
	order(naming, func(a, b *cell[K, V]) int { return t.names.source.compare(a.key, b.key) })
	for _, from := range naming {
		if !visit(&from.head) {
			return
		}
	}
}

// naming finds the rows that name each key. It looks at every row of the source, once for all questions of one Tx.
func (t *keys[G, K, V]) naming(tx *Tx) map[G][]*cell[K, V] {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if found, ok := tx.naming[&t.base]; ok {
		return found.(map[G][]*cell[K, V])
	}
	found := map[G][]*cell[K, V]{}
	for _, c := range t.names.source.cells {
		named, _ := t.names.of(c.key, c.val)
		for _, k := range named {
			if list := found[k]; len(list) == 0 || list[len(list)-1] != c {
				found[k] = append(list, c)
			}
		}
	}
	if tx.naming == nil {
		tx.naming = map[*base]any{}
	}
	tx.naming[&t.base] = found
	return found
}

func (t *keys[G, K, V]) notes() func(yield func(Note) bool) bool { return t.names.notes() }
