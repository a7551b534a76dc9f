package ca_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"fairway/internal/identity/ca"
)

// TestListsForEveryIssuer: during the replacement of a root proxies get CRLs only if every issuer with certificates in use has one, because
// they refuse all certificates of an issuer without one; the control plane always uses the existing CRLs.
func TestListsForEveryIssuer(t *testing.T) {
	at := newClock()
	root, next := below(t, nil, "root", at), below(t, nil, "next", at)
	dir := t.TempDir()
	place(t, dir, istioFiles(t, root, nil, root.pem()))
	var log bytes.Buffer
	c := open(t, at.options(pluggedIn(dir), func(o *ca.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }))
	leaf := sign(t, c, web, 0).Leaf
	serial := leaf.SerialNumber.Int64()
	told := func() int { return bytes.Count(c.Roots(), []byte("BEGIN X509 CRL")) }

	files := istioFiles(t, next, nil, next.pem())
	files["ca-crl.pem"] = revoke(t, next, at, serial)
	place(t, dir, files)
	c.Reload()
	if s := c.Status(); told() != 0 || s.Unlisted != "CN=root" || len(s.Lists) != 1 || s.Phase != ca.Introduced ||
		!strings.Contains(log.String(), `without="CN=root"`) {
		t.Errorf("%d lists are told without one of the issuer that signs: %+v\n%s", told(), c.Status(), &log)
	}
	place(t, dir, map[string][]byte{"ca-crl.pem": join(revoke(t, next, at, serial), revokes(t, root, at, leaf.SerialNumber))})
	c.Reload()
	if s := c.Status(); told() != 2 || s.Unlisted != "" || len(s.Lists) != 2 || s.Lists[1].Revoked != 1 {
		t.Errorf("%d lists are told of two: %+v", told(), s)
	}
	if !c.Revoked(leaf) {
		t.Error("what the old root's list names is not revoked")
	}
	before := c.Roots()
	late := *at
	late.now = at.now.Add(-2 * time.Hour)
	place(t, dir, map[string][]byte{"ca-crl.pem": revoke(t, next, &late, 1)})
	c.Reload()
	if !bytes.Equal(before, c.Roots()) || !strings.Contains(log.String(), "have the authority make a new one") {
		t.Errorf("a list that has ended takes the place of one that has not\n%s", &log)
	}
}

// TestAnotherProcessIsNoticed: what `pilot-discovery ca rotate` does to the folder is in force in the control plane at
// once, not when it looks there anyway.
func TestAnotherProcessIsNoticed(t *testing.T) {
	at, state := newClock(), t.TempDir()
	keep := at.options(func(o *ca.Options) { o.State = state })
	c, other := open(t, keep), open(t, keep)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	began := time.Now()
	for i, step := range []func() error{other.Rotate, other.Advance, other.Advance} {
		changed := c.Changed()
		if err := step(); err != nil {
			t.Fatal(err)
		}
		for want := other.Roots(); !bytes.Equal(c.Roots(), want); {
			select {
			case <-changed:
				changed = c.Changed()
			case <-time.After(50 * time.Second): // less than what it takes without a watch
				t.Fatalf("step %d is never noticed", i)
			}
		}
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it took %s", took)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
