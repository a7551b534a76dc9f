package table

import "slices"

// contest is an output key that more than one row emits. It keeps the emitted values of each of them, so that another one can take over
// without a new run.
type contest struct {
	claims []claim
	listed bool // among the contested cells of the batch
}

type claim struct {
	maker *maker
	val   value // of its own
}

// open starts a contest with the present owner of a cell.
func (d *derived) open(c *cell) {
	if d.contests == nil {
		d.contests = map[*cell]*contest{}
	}
	ct := &contest{}
	d.contests[c] = ct
	c.contested = true
	// If the owner runs in this batch, its offer replaces the value held so far.
	ct.claims = append(ct.claims, claim{c.owner, d.values.clone(c.val())})
}

// join enters a maker into a contest, and has it decided again.
func (d *derived) join(c *cell, m *maker) {
	ct := d.contests[c]
	if ct.find(m) < 0 {
		ct.claims = append(ct.claims, claim{maker: m})
	}
	d.enlist(c, ct)
}

func (d *derived) enlist(c *cell, ct *contest) {
	if !ct.listed {
		ct.listed = true
		d.contestedCells = append(d.contestedCells, c)
	}
}

func (ct *contest) find(m *maker) int {
	return slices.IndexFunc(ct.claims, func(cl claim) bool { return cl.maker == m })
}

// offer sets the value that a maker emitted.
func (ct *contest) offer(m *maker, v value) {
	ct.claims[ct.find(m)].val = v
}

// letGo withdraws a maker from a cell that it no longer emits.
func (d *derived) letGo(m *maker, c *cell) {
	if !c.contested {
		c.owner = nil
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
			return d.source.keys.compare(a.maker.from, b.maker.from)
		})
		if len(ct.claims) < 2 {
			delete(d.contests, c)
			c.contested = false
		}
		d.award(c, ct)
	}
	d.contestedCells = recycle(d.contestedCells)
	if len(d.contests) == 0 {
		d.contests = nil
	}
}

// award makes the first claimant the owner.
func (d *derived) award(c *cell, ct *contest) {
	if len(ct.claims) == 0 {
		c.owner = nil
		if c.has {
			d.drop(c)
		}
		return
	}
	first := ct.claims[0]
	c.owner = first.maker
	if !c.has || !d.values.equal(c.val(), first.val) {
		d.put(c, d.values.clone(first.val))
	}
}

// conflicts returns the errors of all rows that lost a contest, by the maker that lost.
func (d *derived) conflicts() map[*maker][]*ConflictError {
	told := map[*maker][]*ConflictError{}
	for c, ct := range d.contests {
		winner := d.source.text(ct.claims[0].maker.from)
		for _, cl := range ct.claims[1:] {
			told[cl.maker] = append(told[cl.maker], &ConflictError{
				Table: d.name, Key: d.text(c), Winner: winner, Loser: d.source.text(cl.maker.from),
			})
		}
	}
	return told
}
