package epoch

import (
	"context"
	"fmt"
	"os"
	"time"
)

// adopt takes over the Envoys that an earlier agent left behind when it was killed, and reports whether one of them serves. It finishes
// what was under way: an epoch that was starting takes over, or is removed. If the serving Envoy was started by another plan, the next
// epoch follows by hot restart as soon as possible. Envoys that cannot be taken over are ended, because they hold the ports.
func (s *Supervisor) adopt(ctx context.Context, plan Plan) bool {
	found := orphans(s.o.Dir)
	if len(found) == 0 {
		return false
	}
	f, err := s.bases().reclaim(found[len(found)-1])
	if err != nil {
		s.o.Log.Error("envoys of this folder run, and are another agent's", "envoys", len(found), "error", err)
		return false
	}
	family := s.watchOrphans(ctx, f, found)
	s.family = f
	if !s.o.HotRestart || !s.resume(ctx, family) {
		s.endAdopted(family)
		return false
	}
	s.nextBase, s.wanted = f.baseID+1, plan
	s.note(nil)
	s.o.Log.Info("envoy has been adopted from an agent that was killed", "epoch", s.serving.epoch, "pid", s.serving.pid,
		"same_plan", plan.Equal(s.serving.plan))
	if f.sockets == "" {
		s.o.Log.Warn(
			"this envoy was started by an earlier version's agent: any user of this machine reaches its hot-restart "+
				"socket; stop it and start it anew once",
			"base_id",
			f.baseID,
		)
	}
	if !plan.Equal(s.serving.plan) {
		go s.requestRestart(plan)
	}
	return true
}

// watchOrphans watches the last two of the Envoys that were found, and kills others; there should be none.
func (s *Supervisor) watchOrphans(ctx context.Context, f *family, found []orphan) (out []*process) {
	for i, o := range found {
		s.folder.after(o.file)
		plan, err := o.plan(ctx, s.o.Files, s.o.restartArguments(f, o.epoch))
		if err != nil {
			s.o.Log.Warn("an earlier envoy's bootstrap cannot be read: it counts as another than is wanted", "epoch", o.epoch,
				"pid", o.pid, "error", err)
		}
		p, err := o.watch(plan, f)
		switch {
		case err != nil:
			s.o.Log.Info("an envoy of an earlier agent is gone", "error", err)
		case i < len(found)-2 || o.baseID != f.baseID:
			p.kill()
			f.members--
		default:
			out = append(out, p)
		}
	}
	return out
}

// resume continues at the step where the agent was killed.
func (s *Supervisor) resume(ctx context.Context, family []*process) bool {
	if len(family) == 0 {
		return false
	}
	next := family[len(family)-1]
	if len(family) == 1 {
		s.serving = next
		return s.answers(ctx, next) || s.replaceSilent(ctx, next)
	}
	parent := family[0]
	parent.live = true
	s.serving, s.starting = parent, next
	s.note(nil)
	err := s.awaitLive(ctx, next, parent)
	s.starting = nil
	if err == nil {
		s.completeHandOver(parent, next)
		return true
	}
	s.undo(ctx, next, fmt.Errorf("adopt the next epoch: %w", err))
	if s.adminClosed {
		s.retry = time.After(0)
	}
	return true
}

// answers waits a while for an Envoy that should be serving.
func (s *Supervisor) answers(ctx context.Context, p *process) bool {
	late := time.NewTimer(s.o.Kill)
	defer late.Stop()
	look := time.NewTicker(s.o.Poll)
	defer look.Stop()
	for {
		if s.o.Live(ctx, p.plan, p.epoch) {
			s.markLive(p)
			return true
		}
		select {
		case <-look.C:
		case <-p.done:
			return false
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// replaceSilent has a new epoch take over from an Envoy that does not answer, and reports whether one did. The silent Envoy may
// still serve: it closed its administration for a successor, which was killed together with the agent.
func (s *Supervisor) replaceSilent(ctx context.Context, silent *process) bool {
	s.o.Log.Warn("an envoy of an earlier agent does not answer; if it serves, a new epoch takes over from it", "epoch",
		silent.epoch, "pid", silent.pid)
	silent.live = true
	return s.clearMark(silent.family) && s.handOver(ctx, silent.plan) == nil // the mark is its successor's
}

// endAdopted ends Envoys that cannot be taken over, so that a new one finds its ports free.
func (s *Supervisor) endAdopted(family []*process) {
	f := s.family
	s.family, s.serving, s.parent, s.starting = nil, nil, nil, nil
	for _, p := range family {
		s.o.Log.Warn("an envoy of an earlier agent does not serve, or cannot be taken over from, and is stopped", "epoch", p.epoch,
			"pid", p.pid)
		p.end(s.o.Kill)
		os.Remove(p.file)
		f.members--
	}
	s.releaseUnused(f)
	s.note(nil)
}

// requestRestart requests a restart by the current plan.
func (s *Supervisor) requestRestart(plan Plan) {
	select {
	case s.requests <- request{plan: plan, why: "it was started by an earlier agent in another way", reply: make(chan error, 1)}:
	case <-s.over:
	}
}

// started returns when a process began, by its folder's time.
func started(pid int) time.Time {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}
