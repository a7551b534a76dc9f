package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// derived is a table computed row by row from another one. Each source row has a
// maker, which is found as the first reader of the source row's cell and so
// needs no index of its own.
type derived struct {
	core
	cells.Queue
	source *core
	where  func(c *cells.Cell, v cells.Value) bool // nil: every row of source is one of the derivation's
	bind   func(w *worker) func(from *cells.Cell)  // the function, emitting to a worker

	workers []*worker
	batch   []result // of the turn in progress

	freed          []*cells.Cell            // cells that lost their owner in this batch
	contests       map[*cells.Cell]*contest // keys that more than one row emits
	contestedCells []*cells.Cell            // contests to decide in this batch
	remarks        map[*cells.Maker][]any   // notes, for the rows that have some
}

// emitted is one row that a derivation emitted.
type emitted struct {
	cell *cells.Cell
	val  cells.Value // nil: equal to the cell's value
}

// result is the result of one run of a derivation.
type result struct {
	maker  *cells.Maker
	outs   []emitted
	deps   []cells.Dep // nil: the same as before
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
	d := &derived{core: core{Table: cells.Table{Name: name}, store: source.store, kind: KindDerived, from: source.Name}, source: source}
	cells.Begin(&d.Table, compare, equal)
	if where != nil {
		d.where = func(c *cells.Cell, v cells.Value) bool { return where(cells.KeyOf[IK](c), cells.Unboxed[IV](v)) }
	}
	d.bind = func(w *worker) func(from *cells.Cell) {
		emit := emitter[OK](w, equal)
		return func(from *cells.Cell) { fn(&w.r, cells.KeyOf[IK](from), cells.ValueOf[IK, IV](from), emit) }
	}
	d.Queue = cells.Queue{Of: &d.Table, Due: &source.store.due}
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
	t := &w.table.Table
	return func(k K, v V) {
		hash := cells.HashOf(k)
		c := cells.Find(&t.Cells, hash, k)
		if c == nil {
			r := cells.NewRow[K, V](t, hash, k)
			r.Val = v
			w.outs = append(w.outs, emitted{&r.Cell, cells.Value(&r.Val)})
			return
		}
		out := emitted{cell: c}
		if !equal(cells.ValueOf[K, V](c), v) {
			out.val = cells.Boxed(v)
		}
		w.outs = append(w.outs, out)
	}
}

// has reports whether a cell holds a row that is computed from.
func (d *derived) has(from *cells.Cell) bool {
	return from.Has && (d.where == nil || d.where(from, from.Val()))
}

// start makes a maker for a source row, if it has none: the row is new, or old is a row that where excluded.
func (d *derived) start(from *cells.Cell, old cells.Value) {
	if old != nil && (d.where == nil || d.where(from, old)) || !d.has(from) {
		return
	}
	m := &cells.Maker{Queue: &d.Queue, From: from, Queued: true}
	m.Enqueue()
}

// settle recomputes the stale rows. It then works in steps over the whole batch,
// so that a key may pass from one row to another within a turn: reads are
// recorded, keys are released, keys are claimed, and only then is each cell written, once.
func (d *derived) settle(t *turn) {
	d.compute()
	d.Reserve(len(d.batch))
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
		if c.Owner == nil && !c.Contested && c.Has {
			d.drop(c)
		}
	}
	d.freed, d.Stale, d.batch = cells.Recycle(d.freed), cells.Recycle(d.Stale), cells.Recycle(d.batch)
	for _, w := range d.workers {
		w.outs = cells.Recycle(w.outs)
	}
}

// record stores the reads and notes of a result in its maker.
func (d *derived) record(res *result, t *turn) {
	m := res.maker
	m.Queued = false
	if !res.gone {
		t.Recomputed++
	}
	if res.deps != nil || res.gone {
		d.Edges += len(res.deps) - len(m.Deps)
		d.store.reads.Rewire(m, res.deps)
	}
	if res.err != nil {
		t.Panics = append(t.Panics, res.err)
		res.remark = append(cells.WithoutPanic(d.remarks[m]), res.err)
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
		if o.val == o.cell.Val() {
			o.cell = d.Admit(o.cell)
		}
		if o.cell.Marked {
			continue // emitted twice by one row: compute has noted it
		}
		o.cell.Marked = true
		outs = append(outs, o)
	}
	res.outs = outs
	for _, c := range m.Outs {
		if !c.Marked {
			d.letGo(m, c)
		}
	}
	for _, o := range outs {
		o.cell.Marked = false
	}
	keep(m, outs)
}

// keep remembers the emitted cells of a maker.
func keep(m *cells.Maker, outs []emitted) {
	if slices.EqualFunc(m.Outs, outs, func(c *cells.Cell, o emitted) bool { return c == o.cell }) {
		return
	}
	m.Outs = nil
	if len(outs) > 0 {
		m.Outs = make([]*cells.Cell, len(outs))
	}
	for i, o := range outs {
		m.Outs[i] = o.cell
	}
}

// claim makes m the owner of each cell that it emitted, unless the cell has another owner. Then it opens a contest.
func (d *derived) claim(res *result) {
	m := res.maker
	for i := range res.outs {
		switch c := res.outs[i].cell; {
		case c.Contested:
			d.join(c, m)
		case c.Owner == nil:
			c.Owner = m
		case c.Owner != m:
			d.open(c)
			d.join(c, m)
		}
	}
}

// write writes the emitted rows, except those of contested cells.
func (d *derived) write(res *result) {
	for _, o := range res.outs {
		switch {
		case o.cell.Contested:
			v := o.val
			if v == nil {
				v = o.cell.Val()
			}
			d.contests[o.cell].offer(res.maker, d.Values.Clone(v))
		case o.val != nil:
			d.put(o.cell, o.val)
		}
	}
}
