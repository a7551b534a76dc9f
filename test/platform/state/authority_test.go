package state

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/app/sharing"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/state"
	"fairway/test/rig"
)

var web = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}

// replica is one control plane's part that works on shared state.
type replica struct {
	shared *state.Shared
	ca     *ca.CA
	tokens *authn.JoinTokens
}

// newReplica runs one until the test ends.
func newReplica(t *testing.T, kind, at, name string, sealer state.Sealer) *replica {
	t.Helper()
	r := &replica{shared: state.New(open(t, kind, at), sealer, name, slog.New(slog.DiscardHandler))}
	r.shared.SetTimes(brief())
	o := ca.DefaultOptions()
	o.Plugged, o.Shared = "", r.shared
	var err error
	if r.ca, err = ca.Open(o); err != nil {
		t.Fatal(err)
	}
	r.tokens = authn.NewSharedJoinTokens(r.shared, time.Now, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = r.shared.Run(ctx) })
	g.Go(func() { _ = r.ca.Run(ctx) })
	t.Cleanup(func() { cancel(); g.Wait(); r.shared.Close() })
	return r
}

func key(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (r *replica) issue(t testing.TB, life time.Duration) (ca.Certificate, error) {
	t.Helper()
	return r.ca.Sign(&x509.CertificateRequest{PublicKey: key(t).Public()}, ca.Grant{ID: web, TTL: life})
}

func (r *replica) join(token string, k crypto.Signer) error {
	caller, err := r.tokens.Authenticate(context.Background(), authn.Credentials{Token: token})
	if err != nil {
		return err
	}
	return caller.Bind(k.Public())
}

// sealer returns one with a key.
func sealer(t testing.TB) (state.Sealer, string) {
	t.Helper()
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	file := rig.Write(t, t.TempDir(), "key", []byte(base64.StdEncoding.EncodeToString(raw)+"\n"))
	s, err := state.NewSealer(file)
	if err != nil {
		t.Fatal(err)
	}
	return s, file
}

// testOneAuthority: control planes that begin at the same time have one root. One replaces it, and the others follow; one that does not
// have the key of the records cannot read them.
func testOneAuthority(t *testing.T, kind string, at server) {
	with, _ := sealer(t)
	var all [3]*replica
	var g sync.WaitGroup
	for i := range all {
		g.Go(func() { all[i] = newReplica(t, kind, at.Address(), fmt.Sprint(i), with) })
	}
	g.Wait()
	same := func(phase ca.Phase) func() error {
		return func() error {
			for i, r := range all {
				if s := r.ca.Status(); s.Phase != phase || string(r.ca.Roots()) != string(all[0].ca.Roots()) {
					return fmt.Errorf("control plane %d is in phase %s", i, s.Phase)
				}
			}
			return nil
		}
	}
	if err := same(ca.Stable)(); err != nil {
		t.Fatal(err)
	}
	if err := all[1].ca.Rotate(); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, same(ca.Introduced))
	if err := all[2].ca.Rotate(); !errors.Is(err, ca.ErrRotating) {
		t.Errorf("two rotations at once: %v", err)
	}
	if err := all[0].ca.Advance(); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, same(ca.Retiring))
	other, _ := sealer(t)
	for name, wrong := range map[string]state.Sealer{"no key": {}, "another key": other} {
		in := state.New(open(t, kind, at.Address()), wrong, "x", slog.New(slog.DiscardHandler))
		o := ca.DefaultOptions()
		o.Plugged, o.Shared = "", in
		if _, err := ca.Open(o); err == nil || !strings.Contains(err.Error(), "--stateKeyFile") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testTokensAreUsedOnce: of many machines that show one token to all control planes at once, one is admitted, and it alone again.
func testTokensAreUsedOnce(t *testing.T, kind string, at server) {
	var all []*replica
	for i := range 3 {
		all = append(all, newReplica(t, kind, at.Address(), fmt.Sprint(i), state.Sealer{}))
	}
	for range 5 {
		token, err := all[0].tokens.Create(web, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var admitted atomic.Int32
		var first atomic.Value
		var g sync.WaitGroup
		for i := range 9 {
			k := key(t)
			g.Go(func() {
				switch err := all[i%3].join(token, k); {
				case err == nil:
					admitted.Add(1)
					first.Store(k)
				case !errors.Is(err, authn.ErrRefused):
					t.Error(err)
				}
			})
		}
		g.Wait()
		if admitted.Load() != 1 {
			t.Fatalf("%d machines are admitted by one token", admitted.Load())
		}
		for _, r := range all { // after its answer was lost
			if err := r.join(token, first.Load().(crypto.Signer)); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := all[1].tokens.List(); err != nil || len(list) != 5 || list[0].Used.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}

// testRevocationsArrive: a revocation at one control plane is in force on all. Certificates that another one has issued are on the list,
// and the identity gets no more.
func testRevocationsArrive(t *testing.T, kind string, at server) {
	a, b := newReplica(t, kind, at.Address(), "a", state.Sealer{}), newReplica(t, kind, at.Address(), "b", state.Sealer{})
	of, err := a.issue(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.NewSharedRevocations(b.shared, time.Now, slog.New(slog.DiscardHandler)).RevokeIdentity(web, "left"); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, func() error {
		for _, r := range []*replica{a, b} {
			lists := r.ca.Status().Lists
			_, err := r.issue(t, 0)
			if !errors.Is(err, ca.ErrBarred) || !r.ca.Revoked(of.Leaf) || len(lists) != 1 || lists[0].Revoked == 0 {
				return fmt.Errorf("not revoked yet: %v, %+v", err, lists)
			}
		}
		return nil
	})
}

// testStoreIsAway: certificates go on, shorter ones where longer ones would have to be noted; tokens are refused with the reason; once the
// store is back all goes on, and certificates issued meanwhile can be revoked.
func testStoreIsAway(t *testing.T, kind string, at server) {
	g, _ := at.Gate(t)
	r := newReplica(t, kind, fmt.Sprintf("127.0.0.1:%d", g.Port()), "a", state.Sealer{})
	token, err := r.tokens.Create(web, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	g.Freeze()
	issued, err := r.issue(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	if long, err := r.issue(t, 48*time.Hour); err != nil || time.Until(long.Leaf.NotAfter) > 25*time.Hour {
		t.Errorf("a longer certificate: %v", err)
	}
	if err := r.join(token, key(t)); !errors.Is(err, authn.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a token is taken without the store: %v", err)
	}
	rig.Eventually(t, func() error {
		if s := r.shared.Status(); s.Reason == "" || s.Writes {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	g.Thaw()
	rig.Eventually(t, func() error { return r.join(token, key(t)) })
	rig.Eventually(t, func() error {
		return ca.NewSharedRevocations(r.shared, time.Now, slog.New(slog.DiscardHandler)).
			RevokeSerial(issued.Leaf.SerialNumber.Text(16), "", false)
	})
	rig.Eventually(t, func() error {
		if s := r.shared.Status(); s.Reason != "" || !s.Writes {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// testBackup: what one kind of store held is in another one after save and restore, and tokens are not.
func testBackup(t *testing.T, kind string, at server) {
	with, _ := sealer(t)
	r := newReplica(t, kind, at.Address(), "a", with)
	cert, err := r.issue(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.tokens.Create(web, time.Hour); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if err := (sharing.Kept{Shared: r.shared}).Save(file, with); err != nil {
		t.Fatal(err)
	}
	into := sharing.Kept{Dir: t.TempDir()}
	if err := into.Restore(file, state.Sealer{}, false); err == nil {
		t.Error("a sealed backup is read without its key")
	}
	if err := into.Restore(file, with, false); err != nil {
		t.Fatal(err)
	}
	o := ca.DefaultOptions()
	o.Plugged, o.State = "", into.Dir
	copied, err := ca.Open(o)
	if err != nil || string(copied.Roots()) != string(r.ca.Roots()) {
		t.Errorf("another root is restored: %v", err)
	}
	if err := into.Revocations().RevokeSerial(cert.Leaf.SerialNumber.Text(16), "", false); err != nil {
		t.Error(err)
	}
	if tokens, err := into.Tokens().List(); err != nil || len(tokens) != 0 {
		t.Errorf("%d tokens are restored, %v", len(tokens), err)
	}
	fresh := ca.DefaultOptions()
	fresh.Plugged, fresh.State = "", t.TempDir()
	if _, err := ca.Open(fresh); err != nil {
		t.Fatal(err)
	}
	stranger := sharing.Kept{Dir: fresh.State}
	if err := stranger.Restore(file, with, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("another root is replaced: %v", err)
	}
	if err := stranger.Restore(file, with, true); err != nil {
		t.Error(err)
	}
}
