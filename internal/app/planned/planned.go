package planned

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"fairway/internal/admin"
	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/limit"
	"fairway/internal/plan"
	"fairway/internal/quota"
	"fairway/internal/source/shards"
	"fairway/internal/trial"
)

// Limits of the answers.
const (
	// mostWaiting is how many questions of one namespace wait while another one is answered.
	mostWaiting = 2
	// patience is how long a question waits for others.
	patience = 10 * time.Second
	// rest is how long turns go on undisturbed after a trial, as a multiple of the time that it took.
	rest = 3
	// tick divides the time at which callers of one namespace are answered. How long a trial takes depends on objects and proxies of
	// others, and must not show.
	tick = 100 * time.Millisecond
)

// Options of Plans. All are required.
type Options struct {
	Shards  *shards.Set
	Budgets *quota.Gate
	Door    *door.Door
	Graph   *compile.Graph
	// Between calls a function between two turns, and waits for that.
	Between func(ctx context.Context, f func()) error
	// Held is told how long turns waited for a trial.
	Held func(time.Duration)
}

// Plans plans changes. Many goroutines may use it.
type Plans struct {
	o     Options
	seats *limit.Seats[string]
}

// New returns a Plans.
func New(o Options) *Plans { return &Plans{o, limit.NewSeats[string](1, 1, mostWaiting)} }

// Plan returns what a change would do, as a plan.Plan. Its errors are of type admin.PageError.
func (p *Plans) Plan(ctx context.Context, q admin.PlanQuestion) (any, error) {
	began := time.Now()
	d, err := config.NewDecoder(config.Options{DefaultNamespace: q.Namespace})
	if err != nil {
		return nil, err
	}
	planner := plan.Running(p.o.Graph, trial.New(trial.Options{
		Decoder: d, Shards: p.o.Shards, Budgets: p.o.Budgets, Door: p.o.Door, Graph: p.o.Graph, Limits: plan.RunningLimits(),
	}), p.between)
	out, err := p.inTurn(ctx, q.Caller, func() (*plan.Plan, error) {
		c := trial.Changes{Source: q.Source, Documents: q.Documents, Gone: q.Gone}
		if q.Caller == "" {
			return planner.Plan(ctx, c)
		}
		return planner.PlanFor(ctx, q.Caller, c)
	})
	if q.Caller != "" {
		wait(ctx, tick-time.Since(began)%tick)
	}
	return out, answered(err)
}

// inTurn calls make when no other question is answered. Callers of different namespaces take turns.
func (p *Plans) inTurn(ctx context.Context, caller string, make func() (*plan.Plan, error)) (*plan.Plan, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	seat, err := p.seats.Take(ctx, caller)
	if err != nil {
		return nil, &admin.PageError{Code: http.StatusServiceUnavailable, Text: "other plans are being made: try again"}
	}
	defer seat.Free()
	return make()
}

// between calls a function between two turns, and lets turns rest afterwards.
func (p *Plans) between(ctx context.Context, f func()) error {
	var took time.Duration
	err := p.o.Between(ctx, func() {
		start := time.Now()
		f()
		took = time.Since(start)
		p.o.Held(took)
	})
	wait(ctx, rest*took)
	return err
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// answered returns an error as a page shows it.
func answered(err error) error {
	var shown *admin.PageError
	switch {
	case err == nil || errors.As(err, &shown) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, plan.ErrForeign):
		return &admin.PageError{Code: http.StatusForbidden, Text: err.Error()}
	case errors.Is(err, trial.ErrTooLarge):
		return &admin.PageError{Code: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf(
			"%v; a larger change is planned on top of a snapshot, which callers of the system namespace get: pilotctl plan -f … as one of "+
				"these, or with --on SNAPSHOT or --on RULES", err)}
	}
	return &admin.PageError{Code: http.StatusBadRequest, Text: err.Error()}
}
