// Package asked has what a page needs that is a question: its answer, kept until it is whole, and the metrics of all questions.
package asked

import (
	"bytes"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/questions"
)

// Answer keeps a page until it is sent.
type Answer struct {
	To   http.ResponseWriter
	code int
	body bytes.Buffer
}

// Header is an http.ResponseWriter's.
func (a *Answer) Header() http.Header { return a.To.Header() }

// WriteHeader is an http.ResponseWriter's.
func (a *Answer) WriteHeader(code int) { a.code = code }

// Write is an http.ResponseWriter's.
func (a *Answer) Write(text []byte) (int, error) { return a.body.Write(text) }

// Unwrap is for http.ResponseController.
func (a *Answer) Unwrap() http.ResponseWriter { return a.To }

// Send writes the page. If the client has left, there is nothing to do.
func (a *Answer) Send() {
	if a.code != 0 {
		a.To.WriteHeader(a.code)
	}
	_, _ = a.To.Write(a.body.Bytes())
}

// Meter counts questions.
type Meter struct {
	waits, takes, holds *prometheus.HistogramVec // holds has no labels: it is absent until there was a piece
	refused             *prometheus.CounterVec
}

// NewMeter returns a Meter with its metrics in a registry.
func NewMeter(r prometheus.Registerer) Meter {
	seconds := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 20}
	a := Meter{
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairway_question_wait_seconds", Help: "Seconds that a question waited for others, by question.", Buckets: seconds,
		}, []string{"question"}),
		takes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairway_question_seconds", Help: "Seconds that the answer to a question took, by question.", Buckets: seconds,
		}, []string{"question"}),
		holds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairway_question_piece_seconds",
			Help: "Seconds that no turn began because a piece of an answer was made between two turns.", Buckets: seconds,
		}, nil),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairway_question_refusals_total",
			Help: "Questions that were not answered because of others, by reason: full, caller, late, slow.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{questions.Full, questions.Caller, questions.Late, questions.Slow} {
		a.refused.WithLabelValues(reason)
	}
	r.MustRegister(a.waits, a.takes, a.holds, a.refused)
	return a
}

// Answered implements questions.Meter.
func (a Meter) Answered(name string, waited, took time.Duration) {
	a.waits.WithLabelValues(name).Observe(waited.Seconds())
	a.takes.WithLabelValues(name).Observe(took.Seconds())
}

// Held implements questions.Meter.
func (a Meter) Held(d time.Duration) { a.holds.WithLabelValues().Observe(d.Seconds()) }

// Refused implements questions.Meter.
func (a Meter) Refused(reason string) { a.refused.WithLabelValues(reason).Inc() }
