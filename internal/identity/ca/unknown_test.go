package ca_test

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairway/internal/identity/ca"
	"fairway/internal/state"
	"fairway/internal/state/statetest"
)

// starting is a control plane that starts with a store, and a folder of its machine.
type starting struct {
	client *statetest.Client
	shared *state.Shared
	opts   ca.Options
}

func stateKey(t *testing.T) state.Sealer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := state.NewSealer(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newStarting(t *testing.T, in *statetest.Memory, with state.Sealer, folder string, now func() time.Time) *starting {
	t.Helper()
	s := &starting{client: in.Client(), opts: ca.DefaultOptions()}
	s.shared = state.New(s.client, with, "x", slog.New(slog.DiscardHandler))
	s.shared.KeepCopy(filepath.Join(folder, state.CopyFile), "test", now)
	s.opts.Plugged, s.opts.Shared, s.opts.Now = "", s.shared, now
	return s
}

func (s *starting) open(t *testing.T) *ca.CA {
	t.Helper()
	out, err := ca.Open(s.opts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs the authority until the test ends.
func (s *starting) run(t *testing.T, of *ca.CA) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = s.shared.Run(ctx) })
	g.Go(func() { _ = of.Run(ctx) })
	t.Cleanup(func() { cancel(); g.Wait() })
}

func until(t *testing.T, of *ca.CA, what string, holds func() bool) {
	t.Helper()
	over := time.After(time.Minute)
	for {
		changed := of.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("not in time: %s; %+v", what, of.Status())
		}
	}
}

// TestStartWithoutTheStore: an authority that starts while the store is away waits, and has the mesh's root when the store is back: it
// makes no other one. Nothing is signed or trusted meanwhile.
func TestStartWithoutTheStore(t *testing.T) {
	for name, with := range map[string]state.Sealer{"sealed, without a copy": stateKey(t), "without a key": {}} {
		t.Run(name, func(t *testing.T) {
			in := statetest.New()
			first := newStarting(t, in, with, t.TempDir(), time.Now).open(t)
			s := newStarting(t, in, with, t.TempDir(), time.Now)
			s.client.Cut()
			c := s.open(t)
			csr := &x509.CertificateRequest{PublicKey: ecKey(t, elliptic.P256()).Public()}
			if _, err := c.Sign(csr, ca.Grant{ID: web}); !errors.Is(err, ca.ErrUnknown) {
				t.Errorf("signed: %v", err)
			}
			if err := c.Unknown(); !errors.Is(err, ca.ErrUnknown) || !strings.Contains(err.Error(), "cut the way") {
				t.Errorf("the reason: %v", err)
			}
			if s := c.Status(); s.Unknown == "" || len(s.Roots) > 0 || len(c.Roots()) > 0 {
				t.Errorf("%+v", s)
			}
			if err := c.Barred(web); !errors.Is(err, ca.ErrUnknown) {
				t.Errorf("barred: %v", err)
			}
			for what, err := range map[string]error{"rotate": c.Rotate(), "step": c.Step(), "advance": c.Advance()} {
				if err == nil {
					t.Errorf("%s works", what)
				}
			}
			if _, err := c.ServerCertificate([]string{"a"}); !errors.Is(err, ca.ErrUnknown) {
				t.Errorf("a certificate of its own: %v", err)
			}
			s.run(t, c)
			s.client.Mend()
			until(t, c, "the root is known", func() bool { return c.Unknown() == nil })
			if !bytes.Equal(c.Roots(), first.Roots()) {
				t.Error("it is another root")
			}
			if _, err := c.Sign(csr, ca.Grant{ID: web}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStartFromTheCopy: with a key, an authority that ran before starts from the copy of its machine, and follows the store when it is
// back. The copy has no readable key, and it is good for as long as no other root can have taken over.
func TestStartFromTheCopy(t *testing.T) {
	in, with, folder := statetest.New(), stateKey(t), t.TempDir()
	first := newStarting(t, in, with, folder, time.Now)
	root := first.open(t)
	if err := ca.NewSharedRevocations(first.shared, time.Now, slog.New(slog.DiscardHandler)).
		RevokeSerial("abc", "", true); err != nil {
		t.Fatal(err)
	}
	first.open(t) // reads the revocations
	text, err := os.ReadFile(filepath.Join(folder, state.CopyFile))
	if err != nil || bytes.Contains(text, []byte("PRIVATE KEY")) || bytes.Contains(text, []byte("documents")) {
		t.Fatalf("the copy: %v", err)
	}
	later := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	cut := func(now func() time.Time) (*starting, *ca.CA) {
		s := newStarting(t, in, with, folder, now)
		s.client.Cut()
		return s, s.open(t)
	}
	s, c := cut(later(time.Hour))
	if err := c.Unknown(); err != nil || !bytes.Equal(c.Roots()[:200], root.Roots()[:200]) {
		t.Fatalf("not from the copy: %v", err)
	}
	if l := c.Status().Lists; len(l) != 1 || l[0].Revoked != 1 {
		t.Errorf("the revocations of the copy: %+v", l)
	}
	if s.shared.Status().Copied.IsZero() {
		t.Error("the copy is not said to be in use")
	}
	if err := c.Rotate(); err == nil {
		t.Error("a root is replaced without the store")
	}
	for name, now := range map[string]func() time.Time{"old": later(25 * time.Hour), "of the future": later(-time.Hour)} {
		if _, c := cut(now); c.Unknown() == nil {
			t.Errorf("a copy that is %s is used", name)
		}
	}
	if err := root.Rotate(); err != nil {
		t.Fatal(err)
	}
	s.client.Mend()
	s.run(t, c)
	until(t, c, "it follows the store", func() bool { return c.Status().Phase == ca.Introduced })
	if err := c.Follow(); err != nil || !s.shared.Status().Copied.IsZero() {
		t.Error("the copy is still said to be in use")
	}
}

// TestStoreHasLostTheRoot: an empty store where a root was is an error that says what to do, and no other root is made.
func TestStoreHasLostTheRoot(t *testing.T) {
	in, with, folder := statetest.New(), stateKey(t), t.TempDir()
	newStarting(t, in, with, folder, time.Now).open(t)
	in.Empty()
	_, err := ca.Open(newStarting(t, in, with, folder, time.Now).opts)
	if err == nil || !strings.Contains(err.Error(), "pilot-discovery state restore "+folder) {
		t.Errorf("%v", err)
	}
	if names := in.Names(""); len(names) > 0 {
		t.Errorf("the store has %v", names)
	}
	if err := os.Remove(filepath.Join(folder, state.CopyFile)); err != nil {
		t.Fatal(err)
	}
	newStarting(t, in, with, folder, time.Now).open(t)
}

// TestStepsAreOfTheHolder: of two authorities over one folder, that with the lease takes the steps of a root's replacement.
func TestStepsAreOfTheHolder(t *testing.T) {
	dir, clock := filepath.Join(t.TempDir(), "ca"), newClock()
	var all [2]*ca.CA
	var leases [2]*state.FolderLease
	for i := range all {
		leases[i] = state.NewFolderLease(dir, "x", state.DefaultTimes(), slog.New(slog.DiscardHandler))
		o := clock.options()
		o.State, o.Lease = dir, leases[i]
		all[i] = open(t, o)
	}
	if err := all[0].Rotate(); err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(25 * time.Hour)
	for _, c := range all {
		if err := c.Step(); !errors.Is(err, state.ErrNotWriter) {
			t.Errorf("a step without the lease: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = leases[1].Run(ctx) })
	defer g.Wait()
	defer cancel()
	for over := time.Now().Add(time.Minute); !leases[1].Status().Writes; <-time.After(time.Millisecond) {
		if time.Now().After(over) {
			t.Fatal("the lease is not taken")
		}
	}
	if err := all[0].Step(); !errors.Is(err, state.ErrNotWriter) {
		t.Errorf("a step of the other one: %v", err)
	}
	if err := all[1].Step(); err != nil || all[1].Status().Phase != ca.Retiring {
		t.Errorf("a step of the holder: %v, %s", err, all[1].Status().Phase)
	}
}

// TestDamagedCopy: a copy that cannot be read, or is of another store, counts for nothing.
func TestDamagedCopy(t *testing.T) {
	in, with, folder := statetest.New(), stateKey(t), t.TempDir()
	newStarting(t, in, with, folder, time.Now).open(t)
	file := filepath.Join(folder, state.CopyFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(text)
	changed[60] ^= 1
	for name, content := range map[string][]byte{"cut": text[:len(text)/2], "changed": changed, "empty": {}} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := newStarting(t, in, with, folder, time.Now)
		s.client.Cut()
		if c := s.open(t); c.Unknown() == nil {
			t.Errorf("%s: it is used", name)
		}
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStarting(t, in, with, t.TempDir(), time.Now)
	s.shared.KeepCopy(file, "another", time.Now)
	s.client.Cut()
	if c := s.open(t); c.Unknown() == nil {
		t.Error("the copy of another store is used")
	}
}
