package table

import (
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"fairway/internal/table/cells"
)

// worker runs derivations on one goroutine. It keeps its buffers for the next run.
type worker struct {
	table *derived
	r     Reader
	outs  []emitted // of all runs of the batch
	first int       // index in outs of the first row of the run in progress
	fn    func(from *cells.Cell)
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
	d.batch = slices.Grow(d.batch[:0], len(d.Stale))[:len(d.Stale)]
	n := 1
	if len(d.Stale) >= d.store.parallel {
		n = min(d.store.workers, (len(d.Stale)+chunkRows-1)/chunkRows)
	}
	for len(d.workers) < n {
		d.workers = append(d.workers, d.newWorker())
	}
	if n <= 1 {
		d.workers[0].runAll(0, len(d.Stale))
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for _, w := range d.workers[:n] {
		all.Go(func() {
			for {
				end := int(next.Add(chunkRows))
				if end-chunkRows >= len(d.Stale) {
					return
				}
				w.runAll(end-chunkRows, min(end, len(d.Stale)))
			}
		})
	}
	all.Wait()
}

func (w *worker) runAll(from, to int) {
	for i := from; i < to; i++ {
		m := w.table.Stale[i]
		if w.table.has(m.From) {
			w.table.batch[i] = w.run(m)
		} else {
			w.table.batch[i] = result{maker: m, gone: true}
		}
	}
}

// run computes the rows of one source row.
func (w *worker) run(m *cells.Maker) (res result) {
	w.r.begin(m.From)
	w.first = len(w.outs)
	res.maker = m
	res.err = w.call(m)
	w.r.active = false
	res.deps = w.r.reads.Changed(m.Deps)
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
func (w *worker) call(m *cells.Maker) (err *PanicError) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Table: w.table.Name, Key: w.table.source.Text(m.From), Value: p, Stack: string(debug.Stack())}
		}
	}()
	w.fn(m.From)
	return nil
}

// twice returns a note for each key that one run emitted more than once; the first value counts.
func (w *worker) twice(m *cells.Maker) (notes []any) {
	outs := w.outs[w.first:]
	if len(outs) < 2 {
		return nil
	}
	var seen cells.Set
	again := map[*cells.Cell]bool{}
	for _, o := range outs {
		first := seen.Same(o.cell)
		switch {
		case first == nil:
			seen.Add(o.cell)
		case !again[first]:
			again[first] = true
			from := w.table.source.Text(m.From)
			notes = append(notes, &ConflictError{Table: w.table.Name, Key: w.table.Text(o.cell), Winner: from, Loser: from})
		}
	}
	return notes
}
