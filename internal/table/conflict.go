package table

import "slices"

// contest is an output key that more than one row emits. It keeps what each of
// them emitted, so that another can take over without running again.
type contest[IK comparable, IV any, OK comparable, OV any] struct {
	claims []claim[IK, IV, OK, OV]
	listed bool // among the disputes of the batch
}

type claim[IK comparable, IV any, OK comparable, OV any] struct {
	maker *rowMaker[IK, IV, OK, OV]
	val   OV
}

// open starts a contest with the present owner of a cell.
func (d *derived[IK, IV, OK, OV]) open(c *cell[OK, OV]) {
	if d.contests == nil {
		d.contests = map[*cell[OK, OV]]*contest[IK, IV, OK, OV]{}
	}
	ct := &contest[IK, IV, OK, OV]{}
	d.contests[c] = ct
	c.dispute = true
	// If the owner runs in this batch, its offer replaces the value held so far.
	ct.claims = append(ct.claims, claim[IK, IV, OK, OV]{c.owner.self.(*rowMaker[IK, IV, OK, OV]), c.val})
}

// join enters a maker into a contest, and has it decided again.
func (d *derived[IK, IV, OK, OV]) join(c *cell[OK, OV], m *rowMaker[IK, IV, OK, OV]) {
	ct := d.contests[c]
	if ct.find(m) < 0 {
		ct.claims = append(ct.claims, claim[IK, IV, OK, OV]{maker: m})
	}
	d.enlist(c, ct)
}

func (d *derived[IK, IV, OK, OV]) enlist(c *cell[OK, OV], ct *contest[IK, IV, OK, OV]) {
	if !ct.listed {
		ct.listed = true
		d.disputes = append(d.disputes, c)
	}
}

func (ct *contest[IK, IV, OK, OV]) find(m *rowMaker[IK, IV, OK, OV]) int {
	return slices.IndexFunc(ct.claims, func(cl claim[IK, IV, OK, OV]) bool { return cl.maker == m })
}

// offer sets the value that a maker emitted.
func (ct *contest[IK, IV, OK, OV]) offer(m *rowMaker[IK, IV, OK, OV], v OV) {
	ct.claims[ct.find(m)].val = v
}

// letGo withdraws a maker from a cell that it no longer emits.
func (d *derived[IK, IV, OK, OV]) letGo(m *rowMaker[IK, IV, OK, OV], c *cell[OK, OV]) {
	if !c.dispute {
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
func (d *derived[IK, IV, OK, OV]) decide() {
	for _, c := range d.disputes {
		ct := d.contests[c]
		ct.listed = false
		d.store.notesChanged = true
		order(ct.claims, func(a, b claim[IK, IV, OK, OV]) int {
			return d.source.compare(a.maker.from.key, b.maker.from.key)
		})
		if len(ct.claims) < 2 {
			delete(d.contests, c)
			c.dispute = false
		}
		d.award(c, ct)
	}
	d.disputes = recycle(d.disputes)
	if len(d.contests) == 0 {
		d.contests = nil
	}
}

// award makes the first claimant the owner.
func (d *derived[IK, IV, OK, OV]) award(c *cell[OK, OV], ct *contest[IK, IV, OK, OV]) {
	if len(ct.claims) == 0 {
		c.owner = nil
		if c.has {
			d.drop(c)
		}
		return
	}
	first := ct.claims[0]
	c.owner = &first.maker.maker
	if !c.has || !d.equal(c.val, first.val) {
		d.put(c, first.val)
	}
}

// conflicts lists what the losers of all contests are told, by loser.
func (d *derived[IK, IV, OK, OV]) conflicts() map[*rowMaker[IK, IV, OK, OV]][]*ConflictError {
	told := map[*rowMaker[IK, IV, OK, OV]][]*ConflictError{}
	for c, ct := range d.contests {
		winner := text(ct.claims[0].maker.from.key)
		for _, cl := range ct.claims[1:] {
			told[cl.maker] = append(told[cl.maker], &ConflictError{
				Table: d.name, Key: text(c.key), Winner: winner, Loser: text(cl.maker.from.key),
			})
		}
	}
	return told
}
