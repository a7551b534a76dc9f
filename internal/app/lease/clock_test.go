package lease

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"fairway/internal/identity/authn"
)

// TestLeasesFollowTheTimeOfDay: timers do not run while a machine is suspended. If the certificate of a stream expired meanwhile,
// the stream still ends within a minute, and no stream ends too early.
func TestLeasesFollowTheTimeOfDay(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(slog.New(slog.DiscardHandler))
	var wait time.Duration
	var timer func()
	l.now = func() time.Time { return now }
	l.after = func(d time.Duration, do func()) func() bool {
		wait, timer = d, do
		return func() bool { timer = nil; return true }
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	one := &lease{cancel: cancel}
	l.Grant(context.WithValue(ctx, leaseKey{}, one), authn.Caller{By: "token", Until: now.Add(time.Hour)}, "node")
	if wait > time.Minute {
		t.Fatalf("it is looked at after %s: a timer that stands still while the machine sleeps would end it that much too late", wait)
	}
	now = now.Add(wait)
	timer()
	if ctx.Err() != nil || timer == nil || wait > time.Minute {
		t.Fatalf("before its time: %v, looked at again after %s", context.Cause(ctx), wait)
	}
	now = now.Add(5 * time.Hour) // asleep
	timer()
	if ctx.Err() == nil {
		t.Error("it goes on after its time")
	}
	l.leave(one)
	if timer != nil {
		t.Error("the timer outlives the stream")
	}
}
