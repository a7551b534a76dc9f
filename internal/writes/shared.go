package writes

import (
	"context"
	"sync"
	"sync/atomic"
)

// shared runs tasks while this replica leads the cluster, its revision, or both. What they write of an object is the business of the
// revision's leader if the object is for that revision only, and of the cluster's leader otherwise.
type shared struct {
	tasks             []func(context.Context)
	cluster, revision atomic.Bool // what this replica leads

	mu      sync.Mutex
	stop    func() // nil: nothing runs
	running sync.WaitGroup
}

// leads reports whether this replica writes objects that are for its revision only, or all others.
func (s *shared) leads(revised bool) bool {
	if revised {
		return s.revision.Load()
	}
	return s.cluster.Load()
}

// lead has the tasks run until ctx ends, and longer if this replica leads the other, too. Each begins anew, so that it takes everything.
func (s *shared) lead(ctx context.Context, what *atomic.Bool) {
	s.change(ctx, what, true)
	<-ctx.Done()
	s.change(ctx, what, false)
}

func (s *shared) change(ctx context.Context, what *atomic.Bool, leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !leads {
		what.Store(false) // nothing more is begun
	}
	if s.stop != nil {
		s.stop()
		s.running.Wait()
		s.stop = nil
	}
	if what.Store(leads); !s.cluster.Load() && !s.revision.Load() {
		return
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.running.Go(func() { together(run, s.tasks) })
}
