package table

import (
	"slices"

	"fairway/internal/table/cells"
)

// contest is an output key that more than one row emits. It keeps the emitted values of each of them, so that another one can take over
// without a new run.
type contest struct {
	claims []claim
	listed bool // among the contested cells of the batch
}

type claim struct {
	maker *cells.Maker
	val   cells.Value // of its own
}

// open starts a contest with the present owner of a cell.
func (d *derived) open(c *cells.Cell) {
	if d.contests == nil {
		d.contests = map[*cells.Cell]*contest{}
	}
	ct := &contest{}
	d.contests[c] = ct
	c.Contested = true
	// If the owner runs in this batch, its offer replaces the value held so far.
	ct.claims = append(ct.claims, claim{c.Owner, d.Values.Clone(c.Val())})
}

// join enters a maker into a contest, and has it decided again.
func (d *derived) join(c *cells.Cell, m *cells.Maker) {
	ct := d.contests[c]
	if ct.find(m) < 0 {
		ct.claims = append(ct.claims, claim{maker: m})
	}
	d.enlist(c, ct)
}

func (d *derived) enlist(c *cells.Cell, ct *contest) {
	if !ct.listed {
		ct.listed = true
		d.contestedCells = append(d.contestedCells, c)
	}
}

func (ct *contest) find(m *cells.Maker) int {
	return slices.IndexFunc(ct.claims, func(cl claim) bool { return cl.maker == m })
}

// offer sets the value that a maker emitted.
func (ct *contest) offer(m *cells.Maker, v cells.Value) {
	ct.claims[ct.find(m)].val = v
}

// letGo withdraws a maker from a cell that it no longer emits.
func (d *derived) letGo(m *cells.Maker, c *cells.Cell) {
	if !c.Contested {
		c.Owner = nil
		d.freed = append(d.freed, c)
		return
	}
	ct := d.contests[c]
	i := ct.find(m)
	ct.claims = slices.Delete(ct.claims, i, i+1)
	d.enlist(c, ct)
}

// decide gives each disputed cell to its smallest claimant and closes contests
// that are over.
func (d *derived) decide() {
	for _, c := range d.contestedCells {
		ct := d.contests[c]
		ct.listed = false
		d.store.notesChanged = true
		slices.SortFunc(ct.claims, func(a, b claim) int {
			return d.source.Keys.Compare(a.maker.From, b.maker.From)
		})
		if len(ct.claims) < 2 {
			delete(d.contests, c)
			c.Contested = false
		}
		d.award(c, ct)
	}
	d.contestedCells = cells.Recycle(d.contestedCells)
	if len(d.contests) == 0 {
		d.contests = nil
	}
}

// award makes the first claimant the owner.
func (d *derived) award(c *cells.Cell, ct *contest) {
	if len(ct.claims) == 0 {
		c.Owner = nil
		if c.Has {
			d.drop(c)
		}
		return
	}
	first := ct.claims[0]
	c.Owner = first.maker
	if !c.Has || !d.Values.Equal(c.Val(), first.val) {
		d.put(c, d.Values.Clone(first.val))
	}
}

// conflicts returns the errors of all rows that lost a contest, by the maker that lost.
func (d *derived) conflicts() map[*cells.Maker][]*ConflictError {
	told := map[*cells.Maker][]*ConflictError{}
	for c, ct := range d.contests {
		winner := d.source.Text(ct.claims[0].maker.From)
		for _, cl := range ct.claims[1:] {
			told[cl.maker] = append(told[cl.maker], &ConflictError{
				Table: d.Name, Key: d.Text(c), Winner: winner, Loser: d.source.Text(cl.maker.From),
			})
		}
	}
	return told
}
