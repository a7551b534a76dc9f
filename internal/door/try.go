package door

import (
	"slices"

	"fairway/internal/source"
)

// Try returns what the door would hand on if it were given a batch, and the grace of the batch's changes were over: the changes themselves,
// and the changes that wait now and would go on with them. Other changes that wait, wait in the trial too. Nothing is handed on, and the
// door is as before.
func (d *Door) Try(b source.Batch) source.Batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := map[*entry]item{}
	entries := d.take(b, func(e *entry) {
		if _, twice := before[e]; !twice {
			before[e] = e.want
		}
	})
	changes := make([]*change, len(entries))
	for i, e := range entries {
		changes[i] = d.names.change(e)
		changes[i].forced = true
	}
	changes = d.names.together(changes)
	d.names.choose(changes)
	b.Set.Objects, b.Gone.Objects, b.Set.Services, b.Gone.Services = nil, nil, nil, nil
	for _, c := range changes {
		if c.letThrough {
			c.handOn(&b)
		}
	}
	for _, c := range slices.Backward(changes) {
		if c.letThrough {
			d.names.undoOld(c)
			d.names.undoNew(c)
		}
	}
	for e, want := range before {
		e.want = want
		d.forget(e)
	}
	return b
}
