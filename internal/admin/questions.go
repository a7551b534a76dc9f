package admin

import (
	"context"
	"errors"
	"net/http"

	"fairway/internal/admin/asked"
	"fairway/internal/questions"
)

// question makes a page a question: its answers are made one at a time, and sent afterwards, so that a slow reader holds no other up.
func (p *Pages) question(name string, page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		made := &asked.Answer{To: w}
		err := p.Questions.Ask(r.Context(), questions.Question{Name: name, Caller: viewerOf(r).namespace}, func(ctx context.Context) error {
			page(made, r.WithContext(ctx))
			return ctx.Err()
		})
		if err != nil {
			unanswered(w, err)
			return
		}
		made.Send()
	}
}

// unanswered tells a caller why its question has no answer. If the caller has left, there is nothing to tell.
func unanswered(w http.ResponseWriter, err error) {
	var no *questions.Refusal
	if !errors.As(err, &no) {
		return
	}
	code := http.StatusServiceUnavailable
	if no.Reason == questions.Caller {
		code = http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", retryAfter)
	writeError(w, no.Error(), code)
}

// retryAfter is after how many seconds a caller may ask again.
const retryAfter = "3"
