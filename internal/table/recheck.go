package table

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"fairway/internal/table/cells"
)

// Recheck computes n derived rows again from their reads, chosen at random, and returns the rows that come out different: an input of
// theirs is not recorded, or other code wrote to them. The next Settle computes these again and mends them. Only the owner of the turns may
// call it, between turns; its cost is that of n rows, whatever the size of the tables.
func (s *Store) Recheck(n int) []Divergence {
	s.turns.Lock()
	defer s.turns.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sealed {
		return nil
	}
	var found []Divergence
	for range n {
		if d, differs := s.nodes[rand.IntN(len(s.nodes))].recheck(); differs {
			s.doubts++
			found = append(found, d)
		}
	}
	return found
}

// Again has the next Settle be a turn even with nothing staged. It is for the
// owner of the turns.
func (s *Store) Again() {
	s.turns.Lock()
	defer s.turns.Unlock()
	s.doubts++
}

// recheck computes a random row again. If it comes out different, the next turn computes it, too.
func (d *derived) recheck() (out Divergence, differs bool) {
	m := d.anyMaker()
	if m == nil || m.Queued {
		return out, false
	}
	if len(d.workers) == 0 {
		d.workers = append(d.workers, d.newWorker())
	}
	w := d.workers[0]
	defer func() { w.outs = cells.Recycle(w.outs) }()
	res := w.run(m)
	if res.err != nil {
		return out, false // it keeps its rows and its note
	}
	out = Divergence{Table: d.Name, Key: d.source.Text(m.From)}
	if out.Have, out.Want = d.difference(m, res); out.Have == out.Want {
		return out, false
	}
	m.Queued = true
	m.Enqueue()
	return out, true
}

// anyMaker returns the maker of a random source row; nil if there is none. Makers are a cell's first readers, except those that DeriveWhere
// made later.
func (d *derived) anyMaker() *cells.Maker {
	c := d.source.Cells.Any(rand.IntN)
	if c == nil {
		return nil
	}
	for _, e := range c.Readers[:min(len(c.Readers), 4*len(d.source.starts))] {
		if m := e.Reader; m.Queue == &d.Queue && m.From == c {
			return m
		}
	}
	return nil
}

// difference describes how the rows that a maker emitted differ from the rows that it emits now: two equal texts if they do not.
func (d *derived) difference(m *cells.Maker, res result) (have, want string) {
	now := map[*cells.Cell]*emitted{}
	for i := range res.outs {
		o := &res.outs[i]
		if !slices.Contains(m.Outs, o.cell) {
			return "no row " + d.Text(o.cell), d.shown(o.cell, o.val)
		}
		if now[o.cell] == nil { // if a key is emitted twice, the first value counts
			now[o.cell] = o
		}
	}
	for _, c := range m.Outs {
		o := now[c]
		switch {
		case o == nil:
			return d.Text(c) + " " + d.shown(c, nil), "no such row"
		case !c.Contested && o.val != nil:
			return d.Text(c) + " " + d.shown(c, nil), d.shown(c, o.val)
		}
	}
	switch {
	case res.deps != nil:
		return fmt.Sprintf("%d reads recorded", len(m.Deps)), fmt.Sprintf("others, %d", len(res.deps))
	case !slices.EqualFunc(d.remarks[m], res.remark, cells.SameNote):
		return fmt.Sprint(d.remarks[m]), fmt.Sprint(res.remark)
	}
	return "", ""
}

// shown prints a value; nil is that of the cell.
func (d *derived) shown(c *cells.Cell, v cells.Value) string {
	if v == nil {
		v = c.Val()
	}
	return cells.Text(d.Values.Show(v))
}
