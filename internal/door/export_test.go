package door

import (
	"fmt"
	"maps"

	"fairway/internal/source"
)

// Check compares the door's indexes with new ones that it computes from the applied versions and the waiting changes.
func (d *Door) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := newNames(d.names.reader)
	waits := 0
	for _, e := range d.entries() {
		if e.applied.absent() && e.want.absent() {
			return fmt.Errorf("%s is kept for nothing", e.key)
		}
		f := fresh.reader.facts(e.applied)
		fresh.addNew(&change{entry: e, gives: f.gives, needs: f.needs})
		if e.waiting == nil {
			if e.applied != e.want {
				return fmt.Errorf("%s is neither applied nor waiting", e.key)
			}
			continue
		}
		waits++
		for _, n := range e.waiting.needs {
			fresh.needing.add(n, e)
		}
		for _, n := range e.waiting.gives {
			fresh.giving.add(n, e)
		}
	}
	if waits != d.queue.Len() {
		return fmt.Errorf("%d wait, the queue has %d", waits, d.queue.Len())
	}
	if !maps.Equal(fresh.offered, d.names.offered) {
		return fmt.Errorf("given: %v, should be %v", d.names.offered, fresh.offered)
	}
	for what, pair := range map[string][2]any{
		"needed": {fresh.needed, d.names.needed}, "leaning": {fresh.leaning, d.names.leaning},
		"needing": {fresh.needing, d.names.needing}, "giving": {fresh.giving, d.names.giving},
	} {
		if s, t := fmt.Sprint(pair[0]), fmt.Sprint(pair[1]); s != t {
			return fmt.Errorf("%s: %s, should be %s", what, t, s)
		}
	}
	return nil
}

func (d *Door) entries() []*entry {
	var out []*entry
	for _, e := range d.objects {
		out = append(out, e)
	}
	for _, e := range d.services {
		out = append(out, e)
	}
	return out
}

// Size counts everything that the door keeps.
func (d *Door) Size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names
	size := len(n.offered) + len(d.objects) + len(d.services) + d.queue.Len()
	for _, x := range []index{n.needing, n.giving} {
		size += len(x.at) + len(x.names.in) + len(x.names.beneath)
	}
	return size + len(n.needed) + len(n.leaning.in) + len(n.leaning.beneath)
}

// Force ends the grace of the changes of a batch that wait.
func (d *Door) Force(b source.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var changes []*change
	force := func(e *entry) {
		if e != nil && e.waiting != nil {
			c := d.names.change(e)
			c.forced = true
			changes = append(changes, c)
		}
	}
	for _, k := range b.Gone.Objects {
		force(d.objects[k])
	}
	for _, k := range b.Gone.Services {
		force(d.services[k])
	}
	for _, o := range b.Set.Objects {
		force(d.objects[o.Key])
	}
	for _, s := range b.Set.Services {
		force(d.services[s.Key])
	}
	var out source.Batch
	d.settle(changes, &out)
	d.hand(out)
}
