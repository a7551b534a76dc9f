package admin

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/questions"
)

// question makes a page a question: its answers are made one at a time, and sent afterwards, so that a slow reader holds no other up.
func (p *Pages) question(name string, page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		made := &answer{to: w}
		err := p.Questions.Ask(r.Context(), questions.Question{Name: name, Caller: viewerOf(r).namespace}, func(ctx context.Context) error {
			page(made, r.WithContext(ctx))
			return ctx.Err()
		})
		if err != nil {
			unanswered(w, err)
			return
		}
		made.send()
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

// answer keeps a page until it is sent.
type answer struct {
	to   http.ResponseWriter
	code int
	body bytes.Buffer
}

// Header is an http.ResponseWriter's.
func (a *answer) Header() http.Header { return a.to.Header() }

// WriteHeader is an http.ResponseWriter's.
func (a *answer) WriteHeader(code int) { a.code = code }

// Write is an http.ResponseWriter's.
func (a *answer) Write(text []byte) (int, error) { return a.body.Write(text) }

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.to }

// send writes the page. An error means that the client has left.
func (a *answer) send() {
	if a.code != 0 {
		a.to.WriteHeader(a.code)
	}
	_, _ = a.to.Write(a.body.Bytes())
}

// asked counts questions.
type asked struct {
	waits, takes, holds *prometheus.HistogramVec
	refused             *prometheus.CounterVec
}

func newAsked(r prometheus.Registerer) asked {
	seconds := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 20}
	a := asked{
		waits: histograms("fairway_question_wait_seconds", "Seconds that a question waited for others, by question.", seconds, "question"),
		takes: histograms("fairway_question_seconds", "Seconds that the answer to a question took, by question.", seconds, "question"),
		holds: histograms("fairway_question_piece_seconds",
			"Seconds that no turn began because a piece of an answer was made between two turns.", seconds),
		refused: counters("fairway_question_refusals_total",
			"Questions that were not answered because of others, by reason: full, caller, late, slow.", "reason"),
	}
	for _, reason := range []string{questions.Full, questions.Caller, questions.Late, questions.Slow} {
		a.refused.WithLabelValues(reason)
	}
	r.MustRegister(a.waits, a.takes, a.holds, a.refused)
	return a
}

// Answered implements questions.Meter.
func (a asked) Answered(name string, waited, took time.Duration) {
	a.waits.WithLabelValues(name).Observe(waited.Seconds())
	a.takes.WithLabelValues(name).Observe(took.Seconds())
}

// Held implements questions.Meter.
func (a asked) Held(d time.Duration) { a.holds.WithLabelValues().Observe(d.Seconds()) }

// Refused implements questions.Meter.
func (a asked) Refused(reason string) { a.refused.WithLabelValues(reason).Inc() }
