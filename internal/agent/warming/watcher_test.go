package warming

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/internal/envoy/warming"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// envoy answers with what a test says, one question at a time.
type envoy struct {
	asked   chan struct{}
	answers chan map[string]int64 // nil: it does not answer
	reports chan warming.Report
}

func watch(t *testing.T) (*envoy, *Watcher) {
	e := &envoy{make(chan struct{}), make(chan map[string]int64), make(chan warming.Report, 10)}
	w := New(Options{
		Stats: func(ctx context.Context, _ string) (map[string]int64, error) {
			select {
			case e.asked <- struct{}{}:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			select {
			case a := <-e.answers:
				if a == nil {
					return nil, errors.New("no answer")
				}
				return a, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Report: func(r warming.Report) { e.reports <- r },
		Gap:    time.Millisecond, Most: 2 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return e, w
}

// answer waits for a question, and answers it.
func (e *envoy) answer(stats map[string]int64) {
	<-e.asked
	e.answers <- stats
}

func (e *envoy) reported(t *testing.T, want warming.Report) {
	t.Helper()
	if got := <-e.reports; got != want {
		t.Fatalf("reported %+v, want %+v", got, want)
	}
}

// begins answers the first question, which an agent asks when it begins: an Envoy that it adopts may have acknowledged everything.
func begins(t *testing.T, e *envoy) {
	t.Helper()
	e.reported(t, warming.Report{Unknown: true})
	e.answer(nil) // it has not started yet
	e.answer(stats(0, 0, 1))
	e.reported(t, warming.Report{})
}

func stats(listeners, clusters, started int64) map[string]int64 {
	return map[string]int64{listenersWarming: listeners, clustersWarming: clusters, workersStarted: started, listenersActive: 3}
}

// TestReportsAfterAcknowledgements: each acknowledgement brings one report at least, and others follow while something warms.
func TestReportsAfterAcknowledgements(t *testing.T) {
	e, w := watch(t)
	begins(t, e)
	w.Answered()
	e.answer(stats(0, 0, 0))
	e.reported(t, warming.Report{Listeners: 3}) // none serves before the workers run
	e.answer(stats(0, 0, 0))                    // the same is not reported again
	e.answer(nil)
	e.answer(stats(1, 2, 1))
	e.reported(t, warming.Report{Listeners: 1, Clusters: 2})
	e.answer(stats(0, 0, 1))
	e.reported(t, warming.Report{})
	select {
	case <-e.asked:
		t.Fatal("Envoy is asked though nothing warms")
	case <-time.After(20 * time.Millisecond):
	}
	w.Answered()
	e.answer(stats(0, 0, 1))
	e.reported(t, warming.Report{}) // although it is the same
	// An acknowledgement while Envoy is asked may not be in its answer.
	w.Answered()
	<-e.asked
	w.Answered()
	e.answers <- stats(0, 0, 1)
	e.reported(t, warming.Report{})
	e.answer(stats(1, 0, 1))
	e.reported(t, warming.Report{Listeners: 1})
}

// TestAsksWhileNoAnswerComes: Envoy acknowledges clusters once they have warmed, so it is asked before that, too.
func TestAsksWhileNoAnswerComes(t *testing.T) {
	e, w := watch(t)
	begins(t, e)
	w.Handed()
	e.answer(stats(0, 1, 1))
	e.reported(t, warming.Report{Clusters: 1})
	e.answer(stats(0, 1, 1))
	e.answer(stats(0, 0, 1))
	e.reported(t, warming.Report{})
	<-e.asked // there is no answer yet
	w.Answered()
	e.answers <- stats(0, 0, 1)
	e.answer(stats(0, 0, 1))
	e.reported(t, warming.Report{})
}

// TestEnvoyThatDoesNotTell: a bootstrap may leave the statistics out.
func TestEnvoyThatDoesNotTell(t *testing.T) {
	e, _ := watch(t)
	e.reported(t, warming.Report{Unknown: true})
	e.answer(map[string]int64{})
	e.reported(t, warming.Report{Untold: true})
	select {
	case <-e.asked:
		t.Fatal("Envoy is asked again")
	case <-time.After(20 * time.Millisecond):
	}
}
