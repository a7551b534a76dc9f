package epoch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// restart answers a request in the way that loses the fewest connections.
func (s *Supervisor) restart(ctx context.Context, plan Plan, why string) error {
	log := s.o.Log.With("why", why)
	if !s.canHandOver(plan) {
		log.Info("restarting envoy", "epoch", s.serving.epoch, "was_live", s.serving.live)
		return s.replace(ctx, plan)
	}
	log.Info("hot-restarting envoy", "epoch", s.serving.epoch)
	err := s.handOver(ctx, plan)
	if errors.Is(err, errParentGone) {
		s.countCrash(err)
		return s.replace(ctx, plan) // there is nothing to lose
	}
	if err != nil {
		log.Error("the hot restart failed, the old epoch serves on", "epoch", s.serving.epoch, "error", err)
		if s.adminClosed {
			s.retry = time.After(0)
		}
	}
	return err
}

// canHandOver reports whether a hot restart is possible: both binaries speak the same protocol, and the serving Envoy has its
// shared memory in order. An Envoy that is not live yet has nothing to hand over, and would refuse.
func (s *Supervisor) canHandOver(plan Plan) bool {
	return s.serving.family != nil && s.serving.live && !s.exhausted && plan.protocol == s.serving.plan.protocol
}

// handOver starts the next epoch beside the serving one and has it take over. If that fails, the next epoch is removed, and the old
// one serves on.
func (s *Supervisor) handOver(ctx context.Context, plan Plan) error {
	parent := s.serving
	parent.family.next = parent.epoch + 1
	next, err := s.launch(plan, parent.family)
	if err != nil {
		return err
	}
	s.starting = next
	s.note(nil)
	err = s.awaitLive(ctx, next, parent)
	s.starting = nil
	if err != nil {
		s.undo(ctx, next, err)
		if exit := (*ExitError)(nil); errors.As(err, &exit) && s.o.Failed != nil {
			s.o.Failed(plan, err)
		}
		return err
	}
	s.completeHandOver(parent, next)
	return nil
}

// completeHandOver notes that an epoch serves in its parent's place.
func (s *Supervisor) completeHandOver(parent, next *process) {
	s.markLive(next)
	s.parent, s.serving, s.adminClosed, s.retry, s.retries = parent, next, false, nil, 0
	s.parentLate = time.After(s.o.parentStays())
	s.note(func(st *State) { st.Handovers++; st.NextStart = time.Time{} })
	s.o.Log.Info("a new epoch serves", "epoch", next.epoch, "pid", next.pid, "after", time.Since(next.since).Round(time.Millisecond))
}

// errParentGone is why an epoch is given up if its parent ended before the hand-over: it would wait for its parent for ever.
var errParentGone = errors.New("the envoy that it was to take over from has ended")

// awaitLive returns nil when an epoch serves in its parent's place.
func (s *Supervisor) awaitLive(ctx context.Context, next, parent *process) error {
	late := time.NewTimer(s.o.LiveWithin)
	defer late.Stop()
	look := time.NewTicker(s.o.Poll)
	defer look.Stop()
	failed := fmt.Errorf("epoch %d does not serve after %s: does the control plane answer?", next.epoch, s.o.LiveWithin)
	ended := parent.done
	for {
		select {
		case <-next.done:
			if err := next.exit(); err != nil {
				return fmt.Errorf("epoch %d ended before it served: %w", next.epoch, err)
			}
			return fmt.Errorf("epoch %d ended before it served", next.epoch)
		case <-ended:
			if s.o.Live(ctx, next.plan, next.epoch) {
				return nil
			}
			if time.Since(next.since) < orElse(s.o.ParentShutdown, envoysParentShutdown) {
				return errParentGone // no successor ends its parent before that time
			}
			ended = nil // as it should where the successor serves, and did not answer just now
			failed = fmt.Errorf("epoch %d ended before its successor served", parent.epoch)
			late.Reset(s.o.Kill)
		case <-late.C:
			return failed
		case <-ctx.Done():
			return ErrOver
		case <-look.C:
			if s.o.Live(ctx, next.plan, next.epoch) {
				return nil
			}
		}
	}
}

// undo removes a failed epoch, and reverts its effects on its parent as far as possible.
func (s *Supervisor) undo(ctx context.Context, next *process, why error) {
	next.kill()
	s.forget(next, false)
	s.exhausted = !s.clearMark(next.family) || s.exhausted
	s.adminClosed = !s.o.Live(ctx, s.serving.plan, s.serving.epoch)
	s.note(func(st *State) { st.Failed++; st.LastError = why.Error() })
}

// clearMark removes the mark that a dead epoch left in its family's memory; false: it cannot, so no further epoch would start.
func (s *Supervisor) clearMark(f *family) bool {
	err := clearInitializing(memoryFile(s.o.Memory, f.baseID))
	if err != nil {
		s.o.Log.Warn("no further hot restart with this base id", "base_id", f.baseID, "error", err)
	}
	return err == nil
}

// reopenAdministration starts a new epoch with the plan that serves: its parent has closed its administration for a successor
// that failed, and does not open it again.
func (s *Supervisor) reopenAdministration(ctx context.Context) {
	s.retry = nil
	if s.exhausted {
		return // the next restart that is asked for is a full one
	}
	err := s.handOver(ctx, s.serving.plan)
	if err == nil || errors.Is(err, ErrOver) {
		return
	}
	wait := s.backoff(s.retries)
	s.retries++
	s.retry = time.After(wait)
	s.note(func(st *State) { st.NextStart = time.Now().Add(wait) })
	s.o.Log.Error("the last working bootstrap does not start as a new epoch; trying again", "in", wait, "error", err)
}

// replace ends the serving Envoy, after its connections if it was live, and starts another.
func (s *Supervisor) replace(ctx context.Context, plan Plan) error {
	old := s.serving
	if old.live && !s.adminClosed && s.o.Quiesce != nil {
		s.o.Quiesce(ctx)
	}
	old.end(s.o.Kill)
	if err := s.begin(plan); err != nil {
		s.note(func(st *State) { st.LastError = err.Error() })
		return err
	}
	return nil
}

// backoff returns the wait before try n, counted from 0.
func (s *Supervisor) backoff(n int) time.Duration {
	wait := s.o.Backoff
	for range n {
		if wait *= 2; wait >= s.o.BackoffMax {
			return s.o.BackoffMax
		}
	}
	return min(wait, s.o.BackoffMax)
}

// afterCrash waits, and returns the plan to start next. over reports that this was one crash too many, which is the error then, or
// that a stop was requested meanwhile.
func (s *Supervisor) afterCrash(ctx context.Context, err error) (plan Plan, over bool, _ error) {
	var mistake *PlanError
	if plan = s.wanted; s.State().Starts == 0 && errors.As(err, &mistake) {
		return plan, true, err
	}
	row := s.countCrash(err)
	if s.serving != nil {
		plan = s.serving.plan
	}
	if row > s.o.Budget || s.noRestarts {
		s.o.Log.Error("envoy ended, and is not started again", "crashes_in_a_row", row, "error", err)
		return plan, true, err
	}
	wait := s.backoff(row - 1)
	if row > min(s.o.Budget, usualBudget)/2 {
		plan = s.fallBack(plan)
	}
	s.o.Log.Error("envoy ended and is started again", "in", wait, "crashes_in_a_row", row, "error", err)
	s.note(func(st *State) { st.NextStart = time.Now().Add(wait) })
	defer s.note(func(st *State) { st.NextStart = time.Time{} })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return plan, false, nil
		case r := <-s.requests:
			r.reply <- nil // there is nothing to lose
			return r.plan, false, nil
		case done := <-s.holds:
			close(done)
			return plan, true, nil
		case <-s.signals:
		case <-ended(s.parent):
			s.dropParent()
		case <-ctx.Done():
			return plan, true, nil
		}
	}
}

// countCrash counts a crash, and returns how many there were in a row.
func (s *Supervisor) countCrash(err error) (row int) {
	steady := s.serving != nil && time.Since(s.serving.since) >= s.o.Steady
	s.note(func(st *State) {
		st.Crashes++
		if steady {
			st.InARow = 0
		}
		st.InARow++
		st.LastError = err.Error()
		row = st.InARow
	})
	return row
}

// fallBack returns the plan that served last among those that differ from the one that crashes.
func (s *Supervisor) fallBack(crashing Plan) Plan {
	for i := len(s.lastServing) - 1; i >= 0; i-- {
		if !s.lastServing[i].Equal(crashing) {
			s.o.Log.Warn("coming back to the bootstrap that worked before")
			return s.lastServing[i]
		}
	}
	return crashing
}
