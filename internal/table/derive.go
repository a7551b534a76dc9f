package table

import "slices"

// derived is a table computed row by row from another one. Each source row has a
// maker, which is found as the first reader of the source row's cell and so
// needs no index of its own.
type derived struct {
	core
	source *core
	where  func(c *cell, v value) bool      // nil: every row of source is one of the derivation's
	bind   func(w *worker) func(from *cell) // the function, emitting to a worker

	stale   []*maker
	workers []*worker
	batch   []result // of the turn in progress

	freed          []*cell            // cells that lost their owner in this batch
	contests       map[*cell]*contest // keys that more than one row emits
	contestedCells []*cell            // contests to decide in this batch
	remarks        map[*maker][]any   // notes, for the rows that have some
}

// maker computes the rows of one source row. Its deps are the reads of its last run, the source row first.
type maker struct {
	table  *derived
	from   *cell
	deps   []dep
	outs   []*cell // the cells that it emitted, won or not
	queued bool
}

// emitted is one row that a derivation emitted.
type emitted struct {
	cell *cell
	val  value // nil: equal to the cell's value
}

// result is the result of one run of a derivation.
type result struct {
	maker  *maker
	outs   []emitted
	deps   []dep // nil: the same as before
	remark []any
	err    *PanicError
	gone   bool // the source row is gone
}

// Derive declares a table with the rows that fn emits. fn is called once for each row of from, and again when that row or anything that it
// read through r has changed. fn is a pure function of its arguments and reads; it may emit any number of rows. If it panics, the rows and
// notes of its last good run stay and a note of *PanicError is added. It runs again when something that it read changes.
func Derive[IK comparable, IV any, OK comparable, OV any](
	from *Table[IK, IV], name string, compare func(a, b OK) int, equal func(a, b OV) bool,
	fn func(r *Reader, k IK, v IV, emit func(OK, OV)),
) *Table[OK, OV] {
	return DeriveWhere(from, nil, name, compare, equal, fn)
}

// DeriveWhere is Derive for the rows of from for which where returns true. If where is nil, it is Derive. Nothing is computed or kept for
// the other rows: if few rows use a feature, each other row costs two calls of where for each change.
// where is a pure function and must not panic.
func DeriveWhere[IK comparable, IV any, OK comparable, OV any](
	from *Table[IK, IV], where func(k IK, v IV) bool, name string, compare func(a, b OK) int, equal func(a, b OV) bool,
	fn func(r *Reader, k IK, v IV, emit func(OK, OV)),
) *Table[OK, OV] {
	source := from.core
	d := &derived{core: core{store: source.store, name: name, kind: KindDerived, from: source.name}, source: source}
	begin(&d.core, compare, equal)
	if where != nil {
		d.where = func(c *cell, v value) bool { return where(keyOf[IK](c), unboxed[IV](v)) }
	}
	d.bind = func(w *worker) func(from *cell) {
		emit := emitter[OK](w, equal)
		return func(from *cell) { fn(&w.r, keyOf[IK](from), valueOf[IK, IV](from), emit) }
	}
	source.store.declare(d)
	source.starts = append(source.starts, d)
	source.picks = source.picks || where != nil
	return &Table[OK, OV]{core: &d.core}
}

// emitter returns the emit function of a derivation. The table does not change while its rows are computed, so emit compares the values at
// once. It is not inlined, so that it is not compiled for each type of source.
//
//go:noinline
func emitter[K comparable, V any](w *worker, equal func(a, b V) bool) func(K, V) {
	t := &w.table.core
	return func(k K, v V) {
		hash := hashOf(k)
		c := find(&t.cells, hash, k)
		if c == nil {
			r := newRow[K, V](t, hash, k)
			r.val = v
			w.outs = append(w.outs, emitted{&r.cell, value(&r.val)})
			return
		}
		out := emitted{cell: c}
		if !equal(valueOf[K, V](c), v) {
			out.val = boxed(v)
		}
		w.outs = append(w.outs, out)
	}
}

// has reports whether a cell holds a row that is computed from.
func (d *derived) has(from *cell) bool {
	return from.has && (d.where == nil || d.where(from, from.val()))
}

// start makes a maker for a source row, if it has none: the row is new, or old is a row that where excluded.
func (d *derived) start(from *cell, old value) {
	if old != nil && (d.where == nil || d.where(from, old)) || !d.has(from) {
		return
	}
	m := &maker{table: d, from: from, queued: true}
	m.enqueue()
}

// enqueue notes that the maker must run in this turn.
func (m *maker) enqueue() {
	d := m.table
	d.stale = append(d.stale, m)
	d.store.due.set(d.height)
}

// settle recomputes the stale rows. It then works in steps over the whole batch,
// so that a key may pass from one row to another within a turn: reads are
// recorded, keys are released, keys are claimed, and only then is each cell written, once.
func (d *derived) settle(t *turn) {
	d.compute()
	d.reserve(len(d.batch))
	for i := range d.batch {
		d.record(&d.batch[i], t)
	}
	for i := range d.batch {
		d.release(&d.batch[i])
	}
	for i := range d.batch {
		d.claim(&d.batch[i])
	}
	for i := range d.batch {
		d.write(&d.batch[i])
	}
	d.decide()
	for _, c := range d.freed {
		if c.owner == nil && !c.contested && c.has {
			d.drop(c)
		}
	}
	d.freed, d.stale, d.batch = recycle(d.freed), recycle(d.stale), recycle(d.batch)
	for _, w := range d.workers {
		w.outs = recycle(w.outs)
	}
}

// record stores the reads and notes of a result in its maker.
func (d *derived) record(res *result, t *turn) {
	m := res.maker
	m.queued = false
	if !res.gone {
		t.Recomputed++
	}
	if res.deps != nil || res.gone {
		d.edges += len(res.deps) - len(m.deps)
		d.store.rewire(m, res.deps)
	}
	if res.err != nil {
		t.Panics = append(t.Panics, res.err)
		res.remark = append(withoutPanic(d.remarks[m]), res.err)
	}
	d.annotate(m, res.remark)
}

// release admits the cells of emitted rows to the table, and gives up the cells that the maker no longer emits. A maker that panicked keeps
// its cells.
func (d *derived) release(res *result) {
	if res.err != nil {
		return
	}
	m := res.maker
	outs := res.outs[:0]
	for _, o := range res.outs {
		if o.val == o.cell.val() {
			o.cell = d.admit(o.cell)
		}
		if o.cell.marked {
			continue // emitted twice by one row: compute has noted it
		}
		o.cell.marked = true
		outs = append(outs, o)
	}
	res.outs = outs
	for _, c := range m.outs {
		if !c.marked {
			d.letGo(m, c)
		}
	}
	for _, o := range outs {
		o.cell.marked = false
	}
	m.keep(outs)
}

// keep remembers the emitted cells of a maker.
func (m *maker) keep(outs []emitted) {
	if slices.EqualFunc(m.outs, outs, func(c *cell, o emitted) bool { return c == o.cell }) {
		return
	}
	m.outs = nil
	if len(outs) > 0 {
		m.outs = make([]*cell, len(outs))
	}
	for i, o := range outs {
		m.outs[i] = o.cell
	}
}

// claim makes m the owner of each cell that it emitted, unless the cell has another owner. Then it opens a contest.
func (d *derived) claim(res *result) {
	m := res.maker
	for i := range res.outs {
		switch c := res.outs[i].cell; {
		case c.contested:
			d.join(c, m)
		case c.owner == nil:
			c.owner = m
		case c.owner != m:
			d.open(c)
			d.join(c, m)
		}
	}
}

// write writes the emitted rows whose cells are not contested.
func (d *derived) write(res *result) {
	for _, o := range res.outs {
		switch {
		case o.cell.contested:
			v := o.val
			if v == nil {
				v = o.cell.val()
			}
			d.contests[o.cell].offer(res.maker, d.values.clone(v))
		case o.val != nil:
			d.put(o.cell, o.val)
		}
	}
}
