package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrFull is returned if no seat became free in time.
var ErrFull = errors.New("all seats are taken")

// Seats are a fixed number of seats that keys (addresses, namespaces, identities) share. A free seat goes to the waiting key that has
// the fewest seats. If none is free, a newcomer ends the oldest idle seat of the key that has the most, so a key that takes many idle
// seats loses its own. It is safe for concurrent use.
type Seats[K comparable] struct {
	most, ofOne, queue int

	mu    sync.Mutex
	used  int
	by    map[K]*keySeats[K]
	order uint64 // of the last waiter
}

// keySeats are the seats of one key, oldest first, and the callers that wait for one.
type keySeats[K comparable] struct {
	seats   []*Seat[K]
	waiting []*waiter[K]
}

// waiter waits for a seat.
type waiter[K comparable] struct {
	order uint64
	got   chan *Seat[K] // has room for one
}

// NewSeats returns most seats; one key has at most ofOne of them, and at most queue callers of a key wait at once.
func NewSeats[K comparable](most, ofOne, queue int) *Seats[K] {
	return &Seats[K]{most: most, ofOne: ofOne, queue: queue, by: map[K]*keySeats[K]{}}
}

// Seat is a taken seat. Only its holder calls its methods.
type Seat[K comparable] struct {
	all  *Seats[K]
	key  K
	end  func() // not nil: the seat is idle, and this ends what holds it
	gone bool   // it was ended for another, or is free

	ended chan struct{} // not nil: it was ended for another; closed once end has returned
}

// Take returns a seat for a key. It waits until ctx ends if none is free, and returns ErrFull then.
func (s *Seats[K]) Take(ctx context.Context, k K) (*Seat[K], error) {
	seat, wait := s.try(k)
	if seat != nil {
		return seat, nil
	}
	if wait == nil {
		return nil, ErrFull
	}
	select {
	case seat := <-wait.got:
		return seat, nil
	case <-ctx.Done():
	}
	if s.giveUp(k, wait) {
		return nil, ErrFull
	}
	return <-wait.got, nil // it was given just now
}

// try takes a seat at once, or returns a waiter to wait for; nil: too many of the key wait already.
func (s *Seats[K]) try(k K) (*Seat[K], *waiter[K]) {
	var ended func()
	defer func() {
		if ended != nil {
			ended()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.by[k]
	if own == nil {
		own = &keySeats[K]{}
	}
	if s.used >= s.most || len(own.seats) >= s.ofOne {
		ended = s.makeRoom(k, own)
	}
	if s.used < s.most && len(own.seats) < s.ofOne {
		return s.give(k, own), nil
	}
	if len(own.waiting) >= s.queue {
		return nil, nil
	}
	s.order++
	w := &waiter[K]{s.order, make(chan *Seat[K], 1)}
	own.waiting = append(own.waiting, w)
	s.by[k] = own
	return nil, w
}

// makeRoom ends the oldest idle seat of the key with the most seats, which is the newcomer's own key if no other has more. It returns a
// function that the caller has to call without the lock; nil: no seat is idle.
func (s *Seats[K]) makeRoom(k K, own *keySeats[K]) (end func()) {
	from := own
	if len(own.seats) < s.ofOne {
		for _, other := range s.by {
			if len(other.seats) > len(from.seats) && other.idle() >= 0 {
				from = other
			}
		}
	}
	at := from.idle()
	if at < 0 {
		return nil
	}
	seat := from.seats[at]
	last, ended := seat.end, make(chan struct{})
	seat.end, seat.gone, seat.ended = nil, true, ended
	from.seats = slices.Delete(from.seats, at, at+1)
	s.used--
	s.forget(seat.key, from)
	return func() {
		defer close(ended)
		last()
	}
}

func (c *keySeats[K]) idle() int {
	return slices.IndexFunc(c.seats, func(s *Seat[K]) bool { return s.end != nil })
}

// give gives a key a seat. The lock is held, and there is a free one.
func (s *Seats[K]) give(k K, own *keySeats[K]) *Seat[K] {
	seat := &Seat[K]{all: s, key: k}
	own.seats = append(own.seats, seat)
	s.by[k] = own
	s.used++
	return seat
}

func (s *Seats[K]) forget(k K, c *keySeats[K]) {
	if len(c.seats)+len(c.waiting) == 0 {
		delete(s.by, k)
	}
}

// giveUp removes a waiter; false: it has a seat already.
func (s *Seats[K]) giveUp(k K, w *waiter[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.by[k]
	if own == nil {
		return false
	}
	at := slices.Index(own.waiting, w)
	if at < 0 {
		return false
	}
	own.waiting = slices.Delete(own.waiting, at, at+1)
	s.forget(k, own)
	return true
}

// next gives free seats to waiters: to the key with the fewest seats, and among these to the one that waits longest.
func (s *Seats[K]) next() {
	for s.used < s.most {
		var key K
		var best *keySeats[K]
		for k, c := range s.by {
			if len(c.waiting) == 0 || len(c.seats) >= s.ofOne {
				continue
			}
			if best == nil || len(c.seats) < len(best.seats) ||
				len(c.seats) == len(best.seats) && c.waiting[0].order < best.waiting[0].order {
				key, best = k, c
			}
		}
		if best == nil {
			return
		}
		w := best.waiting[0]
		best.waiting = slices.Delete(best.waiting, 0, 1)
		w.got <- s.give(key, best)
	}
}

// Free gives a seat back. A nil or freed seat is not an error.
func (s *Seat[K]) Free() {
	if s == nil {
		return
	}
	if !s.Busy() {
		return
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.gone = true
	c := s.all.by[s.key]
	c.seats = slices.DeleteFunc(c.seats, func(other *Seat[K]) bool { return other == s })
	s.all.used--
	s.all.next()
	s.all.forget(s.key, c)
}

// Idle marks the seat as idle while the holder waits for its caller: a newcomer may get the seat, and then end is called once, from another
// goroutine. It reports whether the holder still has the seat.
func (s *Seat[K]) Idle(end func()) bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if !s.gone {
		s.end = end
	}
	return !s.gone
}

// Busy marks the seat as busy. It reports whether the holder still has it. If not, the function that Idle was given has returned.
func (s *Seat[K]) Busy() bool {
	s.all.mu.Lock()
	s.end = nil
	gone, ended := s.gone, s.ended
	s.all.mu.Unlock()
	if ended != nil {
		<-ended
	}
	return !gone
}

// Used returns how many seats are taken.
func (s *Seats[K]) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
