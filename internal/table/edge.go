package table

// An edge is one recorded read. It has two ends that know each other's place:
// dep in the maker, edge in the cell that was read. So either end finds the
// other, and a read is withdrawn in constant time however many others read the
// cell. The two take 32 bytes.
type (
	dep struct {
		cell *cell
		at   uint32 // place in cell.readers, and the onlyHas bit
	}
	edge struct {
		reader *maker
		at     uint32 // place in reader.deps, and the onlyHas bit
	}
)

const (
	// onlyHas marks a read that asked for existence alone.
	onlyHas uint32 = 1 << 31
	place   uint32 = onlyHas - 1
)

// queueReaders queues the makers that a change of c affects: all readers if the row appeared or disappeared, otherwise the readers of its
// value.
func (c *cell) queueReaders(appearance bool) {
	for _, e := range c.readers {
		if !e.reader.queued && (appearance || e.at&onlyHas == 0) {
			e.reader.queued = true
			e.reader.enqueue()
		}
	}
}

// attach records m's read number i on the cell that was read.
func (m *maker) attach(i int) {
	d := &m.deps[i]
	kind := d.at & onlyHas
	d.at = uint32(len(d.cell.readers)) | kind
	d.cell.readers = append(d.cell.readers, edge{m, uint32(i) | kind})
}

// detach withdraws a read; the last reader takes the place that becomes free.
func (d dep) detach() {
	c, i, last := d.cell, d.at&place, len(d.cell.readers)-1
	moved := c.readers[last]
	c.readers[i] = moved
	other := &moved.reader.deps[moved.at&place]
	other.at = i | other.at&onlyHas
	c.readers[last] = edge{}
	c.readers = shrunk(c.readers[:last])
}

// shrunk returns a list of readers without spare room, if it has become short.
func shrunk(list []edge) []edge {
	switch {
	case len(list) == 0:
		return nil
	case cap(list) > 64 && len(list) < cap(list)/4:
		return append(make([]edge, 0, 2*len(list)), list...)
	}
	return list
}

// rewire makes deps the reads of m. Reads that are the same as before, in the same place, stay as they are. Cells left without readers are
// kept until sweep, since another maker of the same batch may be about to read them.
func (s *Store) rewire(m *maker, deps []dep) {
	old, same := m.deps, 0
	for same < len(old) && same < len(deps) && sameRead(old[same], deps[same]) {
		deps[same].at = old[same].at
		same++
	}
	for _, d := range old[same:] {
		d.detach()
		if len(d.cell.readers) == 0 && !d.cell.has {
			s.loose = append(s.loose, d.cell)
		}
	}
	m.deps = deps
	for i := same; i < len(deps); i++ {
		m.attach(i)
	}
}

func sameRead(a, b dep) bool { return a.cell == b.cell && (a.at^b.at)&onlyHas == 0 }

// sweep removes absent cells that no row reads any more.
func (s *Store) sweep() {
	for _, c := range s.loose {
		if len(c.readers) == 0 && !c.has {
			c.table.vanish(c)
		}
	}
	s.loose = recycle(s.loose)
}
