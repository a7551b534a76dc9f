package consul

import (
	"context"
	"time"
)

// queue holds the services that are to be read. A few goroutines serve it, however many services there are: one that goes while it waits
// is not read.
type queue struct {
	waits []*service
	more  chan struct{} // holds a token while some wait
}

// enqueue queues a service to be read. The lock is held.
func (s *Source) enqueue(v *service) { s.queueUp(v, false) }

// enqueueLook queues a service to be checked, and read if it has changed. The lock is held.
func (s *Source) enqueueLook(v *service) { s.queueUp(v, true) }

func (s *Source) queueUp(v *service, look bool) {
	switch {
	case s.services[v.name] != v:
		return
	case v.queued:
		v.look = v.look && look
		return
	}
	v.queued, v.look = true, look
	q := &s.queue
	if len(q.waits) > 2*len(s.services)+readers {
		kept := q.waits[:0:0]
		for _, other := range q.waits {
			if s.services[other.name] == other {
				kept = append(kept, other)
			}
		}
		q.waits = kept
	}
	q.waits = append(q.waits, v)
	q.poke()
}

func (q *queue) poke() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// next waits for a service that is to be read, or, if look is true, checked; nil: ctx has ended.
func (s *Source) next(ctx context.Context) (v *service, look bool) {
	for {
		if v, look = s.pop(); v != nil {
			return v, look
		}
		select {
		case <-s.queue.more:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (s *Source) pop() (v *service, look bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.queue
	for len(q.waits) > 0 {
		v, q.waits[0] = q.waits[0], nil
		q.waits = q.waits[1:]
		look, v.queued, v.look = v.look, false, false
		if s.services[v.name] != v {
			continue
		}
		if len(q.waits) > 0 {
			q.poke()
		}
		return v, look
	}
	q.waits = nil
	return nil, false
}

// serve reads services that wait for it, until ctx ends.
func (s *Source) serve(ctx context.Context) {
	for {
		v, look := s.next(ctx)
		if v == nil {
			return
		}
		if look {
			s.look(ctx, v)
			continue
		}
		at, err := s.line.get(ctx)
		if err != nil {
			return
		}
		if _, err = s.ask(ctx, v, at, 0); ctx.Err() != nil {
			return
		}
		if err != nil {
			s.later(v, s.handleError(ctx, v, at, err))
			continue
		}
		s.served(v)
	}
}

// later queues a service to be read, after a while.
func (s *Source) later(v *service, d time.Duration) {
	again := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() == nil {
			s.enqueue(v)
		}
	}
	if d > 0 {
		time.AfterFunc(d, again)
		return
	}
	again()
}

// served starts the waiting query of a service that has been read, if it should have one.
func (s *Source) served(v *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hot := v.hot
	v.hot = false
	switch {
	case s.services[v.name] != v:
	case v.awaited && v.proxies:
		s.release(v)
	case v.awaited && v.index != 0:
		v.awaited = false
		s.wait(v)
	case v.awaited: // it was to be read anew meanwhile
		s.enqueue(v)
	case hot:
		s.promote(v)
	}
}
