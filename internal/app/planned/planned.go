package planned

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"fairway/internal/admin/change"
	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/plan"
	"fairway/internal/quota"
	"fairway/internal/source/shards"
	"fairway/internal/trial"
)

// Options of Plans. All are required.
type Options struct {
	Shards  *shards.Set
	Budgets *quota.Gate
	Door    *door.Door
	Graph   *compile.Graph
	// Between calls a function between two turns, and waits for that.
	Between func(ctx context.Context, f func()) error
}

// Plans plans changes. Many goroutines may use it.
type Plans struct{ o Options }

// New returns a Plans.
func New(o Options) *Plans { return &Plans{o} }

// Plan returns what a change would do, as a plan.Plan. Its errors are of type change.Error.
func (p *Plans) Plan(ctx context.Context, q change.Question) (any, error) {
	d, err := config.NewDecoder(config.Options{DefaultNamespace: q.Namespace})
	if err != nil {
		return nil, err
	}
	planner := plan.Running(p.o.Graph, trial.New(trial.Options{
		Decoder: d, Shards: p.o.Shards, Budgets: p.o.Budgets, Door: p.o.Door, Graph: p.o.Graph, Limits: plan.RunningLimits(),
	}), p.o.Between)
	c := trial.Changes{Source: q.Source, Documents: q.Documents, Gone: q.Gone}
	var out *plan.Plan
	if q.Caller == "" {
		out, err = planner.Plan(ctx, c)
	} else {
		out, err = planner.PlanFor(ctx, q.Caller, c)
	}
	return out, answered(err)
}

// answered returns an error as a page shows it.
func answered(err error) error {
	var shown *change.Error
	switch {
	case err == nil || errors.As(err, &shown) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, plan.ErrForeign):
		return &change.Error{Code: http.StatusForbidden, Text: err.Error()}
	case errors.Is(err, trial.ErrTooLarge):
		return &change.Error{Code: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf(
			"%v; a larger change is planned on top of a snapshot, which callers of the system namespace get: pilotctl plan -f … as one of "+
				"these, or with --on SNAPSHOT or --on RULES", err)}
	}
	return &change.Error{Code: http.StatusBadRequest, Text: err.Error()}
}
