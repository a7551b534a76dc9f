package table

import "slices"

// derived is a table computed row by row from another one. Each source row has a
// rowMaker, which is found as the first reader of the source row's cell and so
// needs no index of its own.
type derived[IK comparable, IV any, OK comparable, OV any] struct {
	body[OK, OV]
	source *body[IK, IV]
	where  func(k IK, v IV) bool // nil: every row of source is one of the derivation's
	fn     func(r *Reader, k IK, v IV, emit func(OK, OV))

	stale   []*rowMaker[IK, IV, OK, OV]
	workers []*worker[IK, IV, OK, OV]
	batch   []result[IK, IV, OK, OV] // of the turn in progress

	freed    []*cell[OK, OV]                            // cells that lost their owner in this batch
	contests map[*cell[OK, OV]]*contest[IK, IV, OK, OV] // keys that more than one row emits
	disputes []*cell[OK, OV]                            // contests to decide in this batch
	remarks  map[*rowMaker[IK, IV, OK, OV]][]any        // notes, for the rows that have some
}

// rowMaker computes the rows of one source row.
type rowMaker[IK comparable, IV any, OK comparable, OV any] struct {
	maker
	table *derived[IK, IV, OK, OV]
	from  *cell[IK, IV]
	outs  []*cell[OK, OV] // what it emitted, won or not
}

// emitted is one row that a derivation emitted.
type emitted[OK comparable, OV any] struct {
	key  OK
	val  OV
	cell *cell[OK, OV]
	same bool // equal to what the cell holds
}

// result is what one run of a derivation gave.
type result[IK comparable, IV any, OK comparable, OV any] struct {
	maker  *rowMaker[IK, IV, OK, OV]
	outs   []emitted[OK, OV]
	deps   []dep // nil: the same as before
	remark []any
	err    *PanicError
	gone   bool // the source row is gone
}

// Derive declares a table whose rows are emitted by fn, which is called once for
// each row of from, and again when that row or anything it read through r has
// changed. fn is a pure function of its arguments and reads; it may emit any
// number of rows. If it panics, the rows and notes of its last good run stay, a
// note of *PanicError is added, and it runs again when something it read changes.
func Derive[IK comparable, IV any, OK comparable, OV any](
	from *Table[IK, IV], name string, compare func(a, b OK) int, equal func(a, b OV) bool,
	fn func(r *Reader, k IK, v IV, emit func(OK, OV)),
) *Table[OK, OV] {
	return DeriveWhere(from, nil, name, compare, equal, fn)
}

// DeriveWhere is Derive of those rows of from for which where is true; nil is true for all. Nothing is computed or kept for the other rows:
// a feature that few rows use costs the rest two calls of where a change. where is a pure function and must not panic.
func DeriveWhere[IK comparable, IV any, OK comparable, OV any](
	from *Table[IK, IV], where func(k IK, v IV) bool, name string, compare func(a, b OK) int, equal func(a, b OV) bool,
	fn func(r *Reader, k IK, v IV, emit func(OK, OV)),
) *Table[OK, OV] {
	source := of(from)
	d := &derived[IK, IV, OK, OV]{source: source, where: where, fn: fn}
	d.begin(base{store: source.store, name: name, kind: KindDerived, from: source.name}, compare, equal)
	source.store.declare(d)
	source.starts = append(source.starts, d.start)
	source.picks = source.picks || where != nil
	return handle(&d.body)
}

// has says whether a cell holds a row that is computed from.
func (d *derived[IK, IV, OK, OV]) has(from *cell[IK, IV]) bool {
	return from.has && (d.where == nil || d.where(from.key, from.val))
}

// start gives a source row its maker, if it has none: it is new, or old is a row that was none of the derivation's.
func (d *derived[IK, IV, OK, OV]) start(from *cell[IK, IV], old IV, had bool) {
	if had && (d.where == nil || d.where(from.key, old)) || !d.has(from) {
		return
	}
	m := &rowMaker[IK, IV, OK, OV]{table: d, from: from}
	m.self, m.queued = m, true
	m.enqueue()
}

func (m *rowMaker[IK, IV, OK, OV]) enqueue() {
	d := m.table
	d.stale = append(d.stale, m)
	d.store.due.set(d.height)
}

// settle recomputes the stale rows. It then works in steps over the whole batch,
// so that a key may pass from one row to another within a turn: reads are
// recorded, keys are let go, keys are claimed, and only then is each cell
// written, once.
func (d *derived[IK, IV, OK, OV]) settle(t *turn) {
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
		if c.owner == nil && !c.dispute && c.has {
			d.drop(c)
		}
	}
	d.freed, d.stale, d.batch = recycle(d.freed), recycle(d.stale), recycle(d.batch)
	for _, w := range d.workers {
		w.outs = recycle(w.outs)
	}
}

// record makes a result's reads and notes those of its maker.
func (d *derived[IK, IV, OK, OV]) record(res *result[IK, IV, OK, OV], t *turn) {
	m := res.maker
	m.queued = false
	if !res.gone {
		t.Recomputed++
	}
	if res.deps != nil || res.gone {
		d.edges += len(res.deps) - len(m.deps)
		d.store.rewire(&m.maker, res.deps)
	}
	if res.err != nil {
		t.Panics = append(t.Panics, res.err)
		res.remark = append(withoutPanic(d.remarks[m]), res.err)
	}
	d.annotate(m, res.remark)
}

// release resolves what was emitted to cells, and lets go of the cells that are
// no longer emitted. A maker that panicked keeps its cells.
func (d *derived[IK, IV, OK, OV]) release(res *result[IK, IV, OK, OV]) {
	if res.err != nil {
		return
	}
	m := res.maker
	outs := res.outs[:0]
	for _, o := range res.outs {
		if o.cell == nil {
			o.cell = d.place(o.key)
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

// keep remembers the cells of what a maker emitted.
func (m *rowMaker[IK, IV, OK, OV]) keep(outs []emitted[OK, OV]) {
	if slices.EqualFunc(m.outs, outs, func(c *cell[OK, OV], o emitted[OK, OV]) bool { return c == o.cell }) {
		return
	}
	m.outs = nil
	if len(outs) > 0 {
		m.outs = make([]*cell[OK, OV], len(outs))
	}
	for i, o := range outs {
		m.outs[i] = o.cell
	}
}

// claim makes m the owner of what it emitted, where nobody else is.
func (d *derived[IK, IV, OK, OV]) claim(res *result[IK, IV, OK, OV]) {
	m := res.maker
	for i := range res.outs {
		switch c := res.outs[i].cell; {
		case c.dispute:
			d.join(c, m)
		case c.owner == nil:
			c.owner = &m.maker
		case c.owner != &m.maker:
			d.open(c)
			d.join(c, m)
		}
	}
}

// write writes what was emitted and is not disputed.
func (d *derived[IK, IV, OK, OV]) write(res *result[IK, IV, OK, OV]) {
	for i := range res.outs {
		switch o := &res.outs[i]; {
		case o.cell.dispute:
			d.contests[o.cell].offer(res.maker, o.val)
		case !o.same:
			d.put(o.cell, o.val)
		}
	}
}
