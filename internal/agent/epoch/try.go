package epoch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Trial runs an Envoy by a plan until it is clear whether it can run at all: its administration answers, or it ends. The error says
// why it cannot, in Envoy's own last words.
type Trial func(Plan) error

// tryWithin is how long an Envoy may take until its administration answers: some tenths of a second, more on a machine that is busy.
const tryWithin = 10 * time.Second

// alternative returns what to start in place of a plan that failed because its Envoy ended before it served, and counts that end.
func (s *Supervisor) alternative(ctx context.Context, failed Plan, why error) (Plan, bool) {
	p := s.serving
	if s.o.Alternative == nil || p == nil || p.live || p.terminated || p.orphan || s.noRestarts || ctx.Err() != nil {
		return failed, false
	}
	next, ok := s.o.Alternative(ctx, failed, why, func(q Plan) error { return s.try(ctx, q) })
	if !ok {
		return failed, false
	}
	next, err := s.checked(ctx, next)
	if err != nil {
		s.o.Log.Error("what should be started instead cannot be", "error", err)
		return failed, false
	}
	s.countCrash(why)
	return next, true
}

// try is a Trial. No other Envoy of this agent may serve.
func (s *Supervisor) try(ctx context.Context, plan Plan) error {
	said := &tail{to: s.o.Stderr}
	p, err := s.launchWithLog(plan, nil, said)
	if err != nil {
		return err
	}
	defer func() {
		p.kill()
		s.forget(p, false)
	}()
	late := time.NewTimer(tryWithin)
	defer late.Stop()
	look := time.NewTicker(s.o.Poll)
	defer look.Stop()
	for {
		select {
		case <-p.done:
			return fmt.Errorf("%s (%w)", strings.TrimSpace(lastLines(said.String(), 1)), p.exit())
		case <-look.C:
			if s.o.Answers(ctx) {
				return nil
			}
		case <-late.C:
			return fmt.Errorf("envoy does not answer %s after its start", tryWithin)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tail passes on what is written, and keeps its end. One goroutine writes; it is read when that has ended.
type tail struct {
	to   io.Writer
	last []byte
}

// longestTail is how many bytes a tail keeps.
const longestTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	t.last = bytes.Clone(t.last[max(0, len(t.last)-longestTail):])
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

func (t *tail) String() string { return string(t.last) }
