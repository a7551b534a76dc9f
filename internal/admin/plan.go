package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"fairway/internal/admin/change"
	"fairway/internal/config"
	"fairway/internal/questions"
)

// The pages that are posted to.
const (
	planPath   = "/debug/planz"
	levelsPath = "/debug/scopez"
)

const levelsAbout = "the levels of the log, by scope; POST ?level=kube:debug,ads:warn or ?reset=true changes them, " +
	"as pilotctl admin log does"

// planTick divides the time at which callers of one namespace are answered. How long a trial takes depends on objects and proxies of
// others, and must not show.
const planTick = 100 * time.Millisecond

// methods are those that a debug page answers.
func methods(path string) string {
	switch path {
	case planPath:
		return http.MethodPost
	case levelsPath:
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// planz shows what a change would do. The change is the body, page.PlanRequest as JSON: browsers send such a body for no other site.
func (p *Pages) planz(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	q, err := change.Read(w, r, viewerOf(r).namespace, viewerOf(r).all, config.WrittenKinds())
	var out any
	if err == nil {
		about := questions.Question{Name: "plan", Caller: viewerOf(r).namespace}
		err = p.Questions.Ask(r.Context(), about, func(ctx context.Context) error {
			out, err = p.Plan(ctx, q)
			return err
		})
	}
	if q.Caller != "" {
		select {
		case <-time.After(planTick - time.Since(began)%planTick):
		case <-r.Context().Done():
		}
	}
	var shown *change.Error
	var no *questions.Refusal
	switch {
	case errors.As(err, &no):
		unanswered(w, err)
	case err == nil:
		writeJSON(w, out)
	case errors.As(err, &shown) && shown.Code == http.StatusForbidden:
		p.refuse(w, r, &refusal{shown.Code, refusedNamespace, shown.Text})
	case errors.As(err, &shown):
		writeError(w, shown.Text, shown.Code)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		writeError(w, "the plan was not made in time: try again", http.StatusServiceUnavailable)
	default:
		fail(w, err)
	}
}
