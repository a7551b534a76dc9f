package reading

import (
	"context"
	"errors"
	"io"
	"testing"
)

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// One large answer is read at a time, of any source; small ones, and beginnings, are read at the same time. Sources take turns: one that
// takes too long loses its turn to another that waits.
func TestOneLargeAnswerAtATime(t *testing.T) {
	line := &line{seat: make(chan struct{}, 1)}
	one, two := &Lane{make(chan struct{}, 1), line, mostTurn}, &Lane{make(chan struct{}, 1), line, 0}
	read := func(r io.Reader, n int64) error {
		_, err := io.Copy(io.Discard, io.LimitReader(r, n))
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	first, second, third := one.Begin(), one.Begin(), two.Begin()
	r1, r2, r3 := first.Reader(ctx, spaces{}), second.Reader(ctx, spaces{}), third.Reader(t.Context(), spaces{})
	for i, err := range []error{read(r1, 2*SmallAnswer), read(r2, SmallAnswer), read(r3, SmallAnswer)} {
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	stop()
	if err := read(r2, 1); !errors.Is(err, errNoTurn) {
		t.Errorf("beside a large answer of the same source another one is read on: %v", err)
	}
	first.End()
	first.End()
	if err := read(r3, 2*SmallAnswer); err != nil {
		t.Errorf("once the large answer is over: %v", err)
	}
	taken := make(chan error)
	last := one.Begin()
	go func() { taken <- last.Take(t.Context()) }()
	for read(r3, 1) == nil { // until the other one waits
	}
	if err := read(r3, 1); !errors.Is(err, errOverdue) {
		t.Errorf("one that takes too long while another waits: %v", err)
	}
	third.End()
	if err := <-taken; err != nil {
		t.Error(err)
	}
	last.End()
}
