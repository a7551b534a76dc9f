package cells

import "slices"

// Dep and Edge are the two ends of one recorded read: Dep in the maker, Edge in the cell that was read. Each knows the place of the other.
// So a read is withdrawn in constant time, however many others read the cell. The two take 32 bytes.
type (
	// Dep is a read by a maker.
	Dep struct {
		Cell *Cell
		At   uint32 // place in Cell.Readers, and the OnlyHas bit
	}
	// Edge is a reader of a cell.
	Edge struct {
		Reader *Maker
		At     uint32 // place in Reader.Deps, and the OnlyHas bit
	}
)

const (
	// OnlyHas marks a read that asked for existence alone.
	OnlyHas uint32 = 1 << 31
	place   uint32 = OnlyHas - 1
)

// QueueReaders queues the makers that a change of c affects: all readers if the row appeared or disappeared, otherwise the readers of its
// value.
func (c *Cell) QueueReaders(appearance bool) {
	for _, e := range c.Readers {
		if !e.Reader.Queued && (appearance || e.At&OnlyHas == 0) {
			e.Reader.Queued = true
			e.Reader.Enqueue()
		}
	}
}

// attach records m's read number i on the cell that was read.
func (m *Maker) attach(i int) {
	d := &m.Deps[i]
	kind := d.At & OnlyHas
	d.At = uint32(len(d.Cell.Readers)) | kind
	d.Cell.Readers = append(d.Cell.Readers, Edge{m, uint32(i) | kind})
}

// detach withdraws a read; the last reader takes the place that becomes free.
func (d Dep) detach() {
	c, i, last := d.Cell, d.At&place, len(d.Cell.Readers)-1
	moved := c.Readers[last]
	c.Readers[i] = moved
	other := &moved.Reader.Deps[moved.At&place]
	other.At = i | other.At&OnlyHas
	c.Readers[last] = Edge{}
	c.Readers = shrunk(c.Readers[:last])
}

// shrunk returns a list of readers without spare room, if it has become short.
func shrunk(list []Edge) []Edge {
	switch {
	case len(list) == 0:
		return nil
	case cap(list) > 64 && len(list) < cap(list)/4:
		return append(make([]Edge, 0, 2*len(list)), list...)
	}
	return list
}

// Reads keeps account of cells without readers, while a batch withdraws reads and records others.
type Reads struct {
	loose []*Cell // cells that lost their last reader in this batch
}

// Rewire makes deps the reads of m. Reads that are the same as before, in the same place, stay as they are. Cells left without readers are
// kept until Sweep, since another maker of the same batch may be about to read them.
func (r *Reads) Rewire(m *Maker, deps []Dep) {
	old, same := m.Deps, 0
	for same < len(old) && same < len(deps) && sameRead(old[same], deps[same]) {
		deps[same].At = old[same].At
		same++
	}
	for _, d := range old[same:] {
		d.detach()
		if len(d.Cell.Readers) == 0 && !d.Cell.Has {
			r.loose = append(r.loose, d.Cell)
		}
	}
	m.Deps = deps
	for i := same; i < len(deps); i++ {
		m.attach(i)
	}
}

func sameRead(a, b Dep) bool { return a.Cell == b.Cell && (a.At^b.At)&OnlyHas == 0 }

// Sweep removes absent cells that no row reads any more.
func (r *Reads) Sweep() {
	for _, c := range r.loose {
		if len(c.Readers) == 0 && !c.Has {
			c.Table.vanish(c)
		}
	}
	r.loose = Recycle(r.loose)
}

// Maker computes the rows of one source row. Its deps are the reads of its last run, the source row first.
type Maker struct {
	Queue  *Queue // of its derivation
	From   *Cell
	Deps   []Dep
	Outs   []*Cell // the cells that it emitted, won or not
	Queued bool
}

// Queue holds the makers of one derivation that must run in this turn.
type Queue struct {
	Of    *Table   // the derivation's table
	Due   *Heights // the tables with something to do in this turn
	Stale []*Maker
}

// Enqueue notes that the maker must run in this turn.
func (m *Maker) Enqueue() {
	q := m.Queue
	q.Stale = append(q.Stale, m)
	q.Due.Set(q.Of.Height)
}

// Record is the reads of one run of a derivation. One goroutine uses it; its buffers serve the next run.
type Record struct {
	deps   []Dep
	places map[*Cell]int // place in deps, once there are many
}

// Begin starts the record of a row made from c.
func (r *Record) Begin(c *Cell) {
	r.deps = append(Recycle(r.deps), Dep{Cell: c})
	if len(r.places) > SpareMap {
		r.places = nil
	}
	clear(r.places)
}

// manyReads is the number of reads from which on a map finds repeated reads faster than a scan.
const manyReads = 24

// Add adds a read, once for each cell; to have read a value includes to have
// asked whether it exists.
func (r *Record) Add(c *Cell, kind uint32) {
	i := r.find(c)
	if i >= 0 {
		r.deps[i].At &= kind
		return
	}
	if r.places != nil && len(r.deps) >= manyReads {
		r.places[c] = len(r.deps)
	}
	r.deps = append(r.deps, Dep{c, kind})
}

func (r *Record) find(c *Cell) int {
	if len(r.deps) < manyReads {
		for i := range r.deps {
			if r.deps[i].Cell == c {
				return i
			}
		}
		return -1
	}
	if len(r.places) == 0 {
		r.listPlaces()
	}
	if i, ok := r.places[c]; ok {
		return i
	}
	return -1
}

func (r *Record) listPlaces() {
	if r.places == nil {
		r.places = map[*Cell]int{}
	}
	for i, d := range r.deps {
		r.places[d.Cell] = i
	}
}

// Changed returns a copy of the reads of a run, or nil if they equal the reads of the run before.
func (r *Record) Changed(before []Dep) []Dep {
	if slices.EqualFunc(before, r.deps, sameRead) {
		return nil
	}
	return append(make([]Dep, 0, len(r.deps)), r.deps...)
}
