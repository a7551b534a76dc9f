package memory

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// TestProgramIsGivenBackOnceSynced: the pages that only the start needs are no part of the peak that the first proxies make. They are given
// back once, and not before the sources have synced.
func TestProgramIsGivenBackOnceSynced(t *testing.T) {
	synced, dropped, done := make(chan struct{}), make(chan struct{}, 10), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	work := uint64(0)
	m := Trimmer{
		Work:   func() uint64 { work++; return work }, // never quiet: nothing else gives memory back
		Synced: synced,
		Drop:   func() error { dropped <- struct{}{}; return nil },
		Log:    slog.New(slog.DiscardHandler),
	}
	go func() { done <- m.Run(ctx) }()
	if len(dropped) > 0 {
		t.Error("they are given back before the sources have synced")
	}
	close(synced)
	select {
	case <-dropped:
	case <-time.After(time.Minute):
		t.Fatal("they are not given back")
	}
	stop()
	if err := <-done; err != nil || len(dropped) > 0 {
		t.Errorf("it ended with %v, after they were given back %d times more", err, len(dropped))
	}
}
