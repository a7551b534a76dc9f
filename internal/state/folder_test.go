package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fairway/internal/state"
)

// brief are times with which a test need not wait.
func brief() state.Times {
	return state.Times{
		Within: time.Second, Looks: 20 * time.Millisecond,
		Lasts: time.Second, Leads: 700 * time.Millisecond, Renews: 20 * time.Millisecond,
	}
}

// plane is a control plane's part in the lease of a folder.
type plane struct {
	lease *state.FolderLease
	docs  state.Documents
	end   func()
}

func newPlane(t *testing.T, dir, name string) *plane {
	t.Helper()
	lease := state.NewFolderLease(dir, name, brief(), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = lease.Run(ctx) })
	p := &plane{lease, lease.Documents(), func() { cancel(); g.Wait() }}
	t.Cleanup(p.end)
	return p
}

// try tries a write of its own, and returns its error.
func (p *plane) try() error { return p.docs.Sole(func() error { return nil }) }

func (p *plane) await(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for err := p.try(); err != nil; err = p.try() {
		if !errors.Is(err, state.ErrNotWriter) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
}

// TestFolderLease: of two control planes over one folder one does what one alone does; when it ends, the other does at once.
func TestFolderLease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	one := newPlane(t, dir, "one")
	one.await(t)
	two := newPlane(t, dir, "two")
	for range 20 {
		if err := two.try(); !errors.Is(err, state.ErrNotWriter) {
			t.Fatalf("two write: %v", err)
		}
		<-time.After(2 * time.Millisecond)
	}
	if err := one.try(); err != nil {
		t.Error(err)
	}
	one.end()
	if err := one.try(); !errors.Is(err, state.ErrNotWriter) {
		t.Errorf("one that has ended writes: %v", err)
	}
	two.await(t)
	if s := two.lease.Status(); !s.Writes || s.Leases != 1 {
		t.Errorf("%+v", s)
	}
}

// TestFolderLeaseOfOneThatHangs: a holder that does not renew loses the lease, and writes nothing when it goes on, also if it had begun.
func TestFolderLeaseOfOneThatHangs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	hangs := state.NewFolderLease(dir, "hangs", brief(), slog.New(slog.DiscardHandler))
	if err := hangs.Take(); err != nil { // and nobody renews it
		t.Fatal(err)
	}
	docs := hangs.Documents()
	if err := docs.Sole(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	hangs.Believe() // as if its clock had stood still
	two := newPlane(t, dir, "two")
	two.await(t)
	err := docs.Sole(func() error { return docs.Write("ca.json", []byte("{}"), 0o600) })
	if !errors.Is(err, state.ErrNotWriter) {
		t.Errorf("it writes: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ca.json")); err == nil {
		t.Error("it has written")
	}
	if err := hangs.Renew(); !errors.Is(err, state.ErrFenced) {
		t.Errorf("it renews: %v", err)
	}
}

// TestFolderLeaseFileIsLost: a damaged or missing file of the lease never gives a term twice.
func TestFolderLeaseFileIsLost(t *testing.T) {
	for name, content := range map[string][]byte{"missing": nil, "damaged": []byte("{"), "low": []byte(`{"term": 1}`)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ca")
			one := state.NewFolderLease(dir, "one", brief(), slog.New(slog.DiscardHandler))
			if err := one.Take(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, ".writer")
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err = os.Remove(file); content != nil {
				err = os.WriteFile(file, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := one.Documents().Sole(func() error { return nil }); !errors.Is(err, state.ErrNotWriter) {
				t.Errorf("it writes without its term: %v", err)
			}
			one.Release()
			if err := one.Take(); err != nil {
				t.Fatal(err)
			}
			if after, err := os.ReadFile(file); err != nil || bytes.Compare(after, before) <= 0 {
				t.Errorf("%s after %s, %v", after, before, err)
			}
		})
	}
}

// TestFolderLeaseIsOneAtATime: many control planes come and go, and a counter that only holders change loses no change.
func TestFolderLeaseIsOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	inside, most, done := make(chan struct{}, 1), 200, 0
	var mu sync.Mutex
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			for {
				p := newPlane(t, dir, fmt.Sprint(i))
				for range 30 {
					err := p.docs.Sole(func() error {
						select {
						case inside <- struct{}{}:
						default:
							t.Error("two are inside at once")
							return nil
						}
						mu.Lock()
						done++
						mu.Unlock()
						<-inside
						return nil
					})
					if err != nil {
						<-time.After(time.Millisecond)
					}
				}
				p.end()
				mu.Lock()
				over := done >= most
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	g.Wait()
}
