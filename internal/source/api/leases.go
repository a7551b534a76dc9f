package api

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"fairway/internal/source/api/book"
	"maps"
	"slices"
	"time"
)

// lease is that an instance goes at a time unless it is put again.
type lease struct {
	service  book.Key
	id       string
	sum      [sha256.Size]byte // of the instance: if the same is put again, it need not be read
	ttl      time.Duration
	deadline time.Time
	at       int // in the queue
}

// leases are those of all instances that have a TTL. They are guarded by their owner, but for sooner.
type leases struct {
	of     map[book.Key]map[string]*lease
	queue  queue
	sooner chan struct{} // holds a token when another lease ends first
}

func newLeases() leases {
	return leases{of: map[book.Key]map[string]*lease{}, sooner: make(chan struct{}, 1)}
}

// set makes a service's leases what its instances say. Those of instances that changed begin now; with renews all do.
func (l *leases) set(s *Service, renews bool, now time.Time) {
	k := s.key()
	had, has := l.of[k], map[string]*lease{}
	for i := range s.Instances {
		in := &s.Instances[i]
		ttl, _ := in.ttl()
		if ttl == 0 {
			continue
		}
		sum := sha256.Sum256(encode(in))
		e := had[in.ID]
		delete(had, in.ID)
		switch {
		case e == nil:
			e = &lease{service: k, id: in.ID, sum: sum, ttl: ttl, deadline: now.Add(ttl)}
			heap.Push(&l.queue, e)
		case renews || e.sum != sum:
			e.sum, e.ttl, e.deadline = sum, ttl, now.Add(ttl)
			heap.Fix(&l.queue, e.at)
		}
		has[in.ID] = e
	}
	for _, e := range had {
		heap.Remove(&l.queue, e.at)
	}
	if delete(l.of, k); len(has) > 0 {
		l.of[k] = has
	}
	l.wake()
}

// extend keeps an instance that is put again unchanged, and reports whether it is one.
func (l *leases) extend(k book.Key, id string, sum [sha256.Size]byte, now time.Time) bool {
	e := l.of[k][id]
	if e == nil || e.sum != sum {
		return false
	}
	e.deadline = now.Add(e.ttl)
	heap.Fix(&l.queue, e.at)
	return true
}

// drop ends the leases of a service that is gone.
func (l *leases) drop(k book.Key) {
	for _, e := range l.of[k] {
		heap.Remove(&l.queue, e.at)
	}
	delete(l.of, k)
}

// renew restarts every lease.
func (l *leases) renew(now time.Time) {
	for _, e := range l.queue {
		e.deadline = now.Add(e.ttl)
	}
	heap.Init(&l.queue)
}

// wake tells the goroutine that waits for the first lease to end that another one may be the first.
func (l *leases) wake() {
	select {
	case l.sooner <- struct{}{}:
	default:
	}
}

// next returns how long it takes until a lease ends.
func (l *leases) next(now time.Time) time.Duration {
	if len(l.queue) == 0 {
		return mostTTL
	}
	return max(0, l.queue[0].deadline.Sub(now))
}

// late returns the instances with an expired lease, by service, and ends these leases.
func (l *leases) late(now time.Time) map[book.Key][]string {
	out := map[book.Key][]string{}
	for len(l.queue) > 0 && !l.queue[0].deadline.After(now) {
		e, _ := heap.Pop(&l.queue).(*lease)
		out[e.service] = append(out[e.service], e.id)
		if delete(l.of[e.service], e.id); len(l.of[e.service]) == 0 {
			delete(l.of, e.service)
		}
	}
	return out
}

// queue is a heap of leases, the one that ends first in front.
type queue []*lease

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].deadline.Before(q[j].deadline) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(v any) {
	e, _ := v.(*lease)
	e.at = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}

// expire takes instances away that were not put again in time, until ctx ends.
func (s *Source) expire(ctx context.Context) {
	for {
		s.writing.Lock()
		wait := s.leases.next(time.Now())
		s.writing.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			s.expireNow()
		case <-s.leases.sooner:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (s *Source) expireNow() {
	begun := time.Now()
	s.writing.Lock()
	late := s.leases.late(begun)
	var changes []change
	for k, ids := range late {
		e := s.book.Get(k)
		if e == nil {
			continue
		}
		v, err := stored(e.Body)
		if err != nil {
			panic(err) // it was written by encode
		}
		for _, id := range ids {
			v.without(id)
		}
		made, err := s.checkService(&v)
		if err != nil { // it was taken once, with more than it has now
			s.log.Error("instances that were not put again stay", "service", k.Path(), "error", err)
			continue
		}
		changes = append(changes, made)
	}
	if len(changes) == 0 {
		s.writing.Unlock()
		return
	}
	slices.SortFunc(changes, func(a, b change) int { return compareChange(a.entry, b.entry) })
	wait := s.waitFor(s.commit(begun, changes))
	s.writing.Unlock()
	for _, k := range slices.Collect(maps.Keys(late)) {
		s.log.Info("instances were not put again in time and are gone", "service", k.Path(), "instances", len(late[k]))
	}
	_ = wait() // it is logged, and an instance that comes back with a restart goes again
}
