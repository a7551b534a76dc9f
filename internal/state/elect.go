package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"fairway/internal/servers"
)

// elect takes the lease whenever no other control plane holds it, until ctx ends; then it gives the lease back.
func (s *Shared) elect(ctx context.Context) {
	for {
		sent := time.Now()
		short, end := context.WithTimeout(ctx, s.times.Within)
		lease, err := s.store.Acquire(short, s.holder, s.times.Lasts)
		end()
		switch {
		case err == nil:
			s.lead(ctx, lease, sent)
		case ctx.Err() == nil:
			s.note(err)
		}
		if !servers.Pause(ctx, s.times.Renews/2+rand.N(s.times.Renews/2)) {
			return
		}
	}
}

// lead renews the lease while that works in time.
func (s *Shared) lead(ctx context.Context, lease Lease, sent time.Time) {
	s.hold(lease.Fence(), sent)
	s.log.Info("this control plane is the one that writes shared state", "store", s.store.String())
	for ctx.Err() == nil {
		until := s.holds()
		if !servers.Pause(ctx, min(s.times.Renews, time.Until(until))) {
			break
		}
		sent := time.Now()
		if !sent.Before(until) {
			break
		}
		short, end := context.WithDeadline(ctx, until)
		err := lease.Renew(short)
		end()
		if err == nil {
			s.hold(lease.Fence(), sent)
		} else if errors.Is(err, ErrFenced) {
			break
		} else if ctx.Err() == nil {
			s.note(err)
			servers.Pause(ctx, min(s.times.Renews/4, time.Until(until)))
		}
	}
	s.hold(Fence{}, time.Time{})
	s.log.Info("this control plane is no longer the one that writes shared state", "store", s.store.String())
	short, end := context.WithTimeout(context.WithoutCancel(ctx), s.times.Within)
	defer end()
	_ = lease.Release(short) // else it ends by itself
}

// hold records that the lease is in force from when its last renewal was sent; zero: it is not.
func (s *Shared) hold(fence Fence, sent time.Time) {
	s.mu.Lock()
	if fence != (Fence{}) && s.fence == (Fence{}) {
		s.status.Leases++
	}
	s.fence, s.until = fence, sent.Add(s.times.Leads)
	if fence == (Fence{}) {
		s.until = time.Time{}
	}
	s.mu.Unlock()
}

func (s *Shared) holds() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}
