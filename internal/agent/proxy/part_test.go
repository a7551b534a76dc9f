package proxy

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// ledger notes events in their order.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) note(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

func (l *ledger) part(name string, before, after error) part {
	return part{name, func(ctx context.Context, up func()) error {
		if before != nil {
			return before
		}
		l.note(name + " up")
		up()
		if after != nil {
			return after
		}
		<-ctx.Done()
		l.note(name + " over")
		return nil
	}}
}

func TestPartsStandAroundEnvoy(t *testing.T) {
	broken := errors.New("broken")
	quiet := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		parts func(*ledger) []part
		want  []string
		err   error
	}{
		"in order": {func(l *ledger) []part { return []part{l.part("a", nil, nil), l.part("b", nil, nil)} },
			[]string{"a up", "b up", "envoy up", "envoy over", "b over", "a over"}, nil},
		"one does not start": {func(l *ledger) []part {
			return []part{l.part("a", nil, nil), l.part("b", broken, nil), l.part("c", nil, nil)}
		},
			[]string{"a up", "a over"}, broken},
		"one fails": {func(l *ledger) []part { return []part{l.part("a", nil, nil), l.part("b", nil, broken)} },
			[]string{"a up", "b up", "envoy up", "envoy stopped", "a over"}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			err := withParts(t.Context(), quiet, c.parts(l), func(ctx context.Context) error {
				l.note("envoy up")
				if c.err != nil {
					<-ctx.Done()
					l.note("envoy stopped")
					return c.err
				}
				l.note("envoy over")
				return nil
			})
			if !errors.Is(err, c.err) || !slices.Equal(l.lines, c.want) {
				t.Errorf("%v, error %v", l.lines, err)
			}
		})
	}
}

// A part that is up and fails at once was up: the parts after it start, and are stopped. With more goroutines than processors, both
// events are at times known before withParts looks.
func TestAPartThatFailsAtOnceWasUp(t *testing.T) {
	broken := errors.New("broken")
	var all sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for range 400 {
				started := false
				err := withParts(
					t.Context(),
					slog.New(slog.DiscardHandler),
					[]part{{"fails", func(_ context.Context, up func()) error { up(); return broken }}},
					func(ctx context.Context) error {
						started = true
						<-ctx.Done()
						return nil
					},
				)
				if !started || !errors.Is(err, broken) {
					t.Errorf("what comes after it started: %v; error %v", started, err)
					return
				}
			}
		})
	}
	all.Wait()
}
