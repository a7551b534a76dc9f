package session

import (
	"container/heap"
	"time"
)

// due orders proxies by the time when some of their data expires, the earliest first, so that a disconnect does not require a look
// at all proxies. Callers hold the lock of proxies.
type due []*connected

// next is when something of the proxy is to be forgotten; zero: nothing is.
func (c *connected) next() time.Time {
	out := c.leaves
	for _, at := range [...]time.Time{c.health.until, c.machine.until} {
		if out.IsZero() || !at.IsZero() && at.Before(out) {
			out = at
		}
	}
	return out
}

// place moves a proxy to the position of its times, or removes it.
func (d *due) place(c *connected) {
	switch in := c.at > 0; {
	case c.next().IsZero() && in:
		heap.Remove(d, c.at-1)
	case c.next().IsZero():
	case in:
		heap.Fix(d, c.at-1)
	default:
		heap.Push(d, c)
	}
}

// Len, Less, Swap, Push and Pop are heap.Interface.

func (d due) Len() int           { return len(d) }
func (d due) Less(i, j int) bool { return d[i].next().Before(d[j].next()) }
func (d due) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i+1, j+1
}

func (d *due) Push(x any) {
	c := x.(*connected)
	*d = append(*d, c)
	c.at = len(*d)
}

func (d *due) Pop() any {
	last := len(*d) - 1
	c := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	c.at = 0
	return c
}
