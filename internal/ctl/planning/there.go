package planning

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/truth"
	"fairway/internal/plan"
	"fairway/internal/trial"
)

// withheld reports whether a control plane refuses its snapshot to the caller.
func withheld(err error) bool {
	var answer *truth.AnswerError
	return errors.As(err, &answer) && answer.Status == http.StatusForbidden
}

// askThere has the control planes make the plan: callers of one namespace get no snapshot. Each knows its own proxies.
func askThere(ctx context.Context, s Session, namespace string, c trial.Changes) (*plan.Plan, error) {
	limits, size := plan.RunningLimits(), 0
	in := page.PlanRequest{Namespace: namespace, Source: c.Source}
	for _, doc := range c.Documents {
		size += len(doc.Text)
		in.Documents = append(in.Documents, page.PlanDocument{File: doc.File, Line: doc.Line, Text: string(doc.Text)})
	}
	for _, k := range c.Gone {
		in.Gone = append(in.Gone, page.PlanKey{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name})
	}
	if n := len(c.Documents) + len(c.Gone); n > limits.Objects || size > limits.Bytes {
		return nil, fmt.Errorf("the control plane shows its snapshot to the system namespace alone, and plans at most %d objects "+
			"of %d KiB itself; these are %d of %d KiB: plan them in parts, ask as the system namespace, or plan with --on SNAPSHOT or "+
			"--on RULES",
			limits.Objects, limits.Bytes>>10, n, (size+1023)>>10)
	}
	planes, err := s.Planes(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*plan.Plan, len(planes))
	for i, p := range planes {
		all[i] = &plan.Plan{}
		if err := p.Post(ctx, "/debug/planz", in, all[i]); err != nil {
			return nil, err
		}
	}
	return plan.Join(all...), nil
}
