package table

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// worker runs derivations on one goroutine. It keeps its buffers for the next run.
type worker struct {
	table *derived
	r     Reader
	outs  []emitted // of all runs of the batch
	first int       // index in outs of the first row of the run in progress
	fn    func(from *cell)
}

func (d *derived) newWorker() *worker {
	w := &worker{table: d, r: Reader{store: d.store, table: &d.core}}
	w.fn = d.bind(w)
	return w
}

const (
	// parallelRows is from how many stale rows on a store computes them on
	// several goroutines.
	parallelRows = 64
	// chunkRows is how many rows a worker takes at a time.
	chunkRows = 8
)

// compute runs the derivation for every stale row into batch. Nothing that other
// rows can see changes here, so the runs may overlap.
func (d *derived) compute() {
	d.batch = slices.Grow(d.batch[:0], len(d.stale))[:len(d.stale)]
	n := 1
	if len(d.stale) >= d.store.parallel {
		n = min(d.store.workers, (len(d.stale)+chunkRows-1)/chunkRows)
	}
	for len(d.workers) < n {
		d.workers = append(d.workers, d.newWorker())
	}
	if n <= 1 {
		d.workers[0].runAll(0, len(d.stale))
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for _, w := range d.workers[:n] {
		all.Go(func() {
			for {
				end := int(next.Add(chunkRows))
				if end-chunkRows >= len(d.stale) {
					return
				}
				w.runAll(end-chunkRows, min(end, len(d.stale)))
			}
		})
	}
	all.Wait()
}

func (w *worker) runAll(from, to int) {
	for i := from; i < to; i++ {
		m := w.table.stale[i]
		if w.table.has(m.from) {
			w.table.batch[i] = w.run(m)
		} else {
			w.table.batch[i] = result{maker: m, gone: true}
		}
	}
}

// run computes the rows of one source row.
func (w *worker) run(m *maker) (res result) {
	w.r.begin(m.from)
	w.first = len(w.outs)
	res.maker = m
	res.err = w.call(m)
	w.r.active = false
	res.deps = w.r.changed(m.deps)
	if res.err != nil {
		w.outs = w.outs[:w.first]
		return res
	}
	res.outs = w.outs[w.first:len(w.outs):len(w.outs)]
	res.remark = w.r.remark
	res.remark = append(res.remark, w.twice(m)...)
	return res
}

// call runs the derivation function, which also compares each emitted value with the current one. Both the function and equal are the
// user's code and may panic.
func (w *worker) call(m *maker) (err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Table: w.table.name, Key: w.table.source.text(m.from), Value: p, Stack: string(debug.Stack())}
		}
	}()
	w.fn(m.from)
	return nil
}

// twice returns a note for each key that one run emitted more than once; the first value counts.
func (w *worker) twice(m *maker) (notes []any) {
	outs := w.outs[w.first:]
	if len(outs) < 2 {
		return nil
	}
	var seen set
	again := map[*cell]bool{}
	for _, o := range outs {
		first := seen.same(o.cell)
		switch {
		case first == nil:
			seen.add(o.cell)
		case !again[first]:
			again[first] = true
			from := w.table.source.text(m.from)
			notes = append(notes, &ConflictError{Table: w.table.name, Key: w.table.text(o.cell), Winner: from, Loser: from})
		}
	}
	return notes
}

// changed returns a copy of the reads of a run, or nil if they equal the reads of the run before.
func (r *Reader) changed(before []dep) []dep {
	if slices.EqualFunc(before, r.deps, sameRead) {
		return nil
	}
	return append(make([]dep, 0, len(r.deps)), r.deps...)
}

// PanicError is the note on a source row if its derivation panicked.
type PanicError struct {
	Table, Key string // the derived table, and the source row's key
	Value      any    // the argument of panic
	Stack      string
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("compute %s from %s: panic: %v", e.Table, e.Key, e.Value)
}

// ConflictError is the note on a source row that emits a key which belongs to
// another row. (If Winner and Loser are the same, one row emitted the key twice; the first value counts.)
type ConflictError struct {
	Table, Key    string // the output row that both emit
	Winner, Loser string // keys of source rows
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("row %s of %s belongs to %s, and %s emits it too", e.Key, e.Table, e.Winner, e.Loser)
}
