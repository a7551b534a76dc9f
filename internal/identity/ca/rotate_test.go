package ca_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"fairway/internal/identity/ca"
)

// keyIn is the number that is the active key's secret in a state file.
func keyIn(t *testing.T, text []byte) *big.Int {
	t.Helper()
	var f struct{ Active struct{ Key string } }
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(f.Active.Key))
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := k.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return new(big.Int).SetBytes(secret)
}

// workload keeps its last certificate and renews at half of its life.
type workload struct {
	ttl   time.Duration
	cert  ca.Certificate
	renew time.Time
}

func (w *workload) step(t *testing.T, c *ca.CA, now time.Time) {
	if now.Before(w.renew) {
		return
	}
	w.cert = sign(t, c, web, w.ttl)
	w.renew = now.Add(w.cert.Leaf.NotAfter.Sub(now) / 2)
}

// TestRotationBreaksNoPair: workloads with certificates of different lives renew on their own; at every hour of three
// rotations each accepts each other's.
func TestRotationBreaksNoPair(t *testing.T) {
	at := newClock()
	c := open(t, at.options())
	random := rand.New(rand.NewPCG(1, 2))
	var all []*workload
	for range 3 {
		all = append(all, &workload{ttl: time.Duration(1+random.IntN(72)) * time.Hour})
	}
	all = append(all, &workload{ttl: 72 * time.Hour}, &workload{ttl: time.Hour})
	most, rotations := 0, 0
	for hour := range 3 * 200 {
		if hour%200 == 10 {
			if err := c.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		before := c.Status().Phase
		if err := c.Step(); err != nil {
			t.Fatal(err)
		}
		if before == ca.Retiring && c.Status().Phase == ca.Stable {
			rotations++
		}
		most = max(most, len(c.Status().Roots))
		for _, w := range all {
			w.step(t, c, at.now)
		}
		for i, a := range all {
			for j, b := range all {
				if err := verify(a.cert.Chain, b.cert.Roots, at.now); err != nil {
					t.Fatalf("hour %d, %s: workload %d is refused by %d: %v", hour, c.Status().Phase, i, j, err)
				}
			}
		}
		at.now = at.now.Add(time.Hour)
	}
	if rotations != 3 || most != 2 {
		t.Errorf("%d rotations were completed, with up to %d roots at once; want 3 with 2", rotations, most)
	}
}

// TestPhases: when each step is due, and that Changed reports exactly the changes.
func TestPhases(t *testing.T) {
	at := newClock()
	c := open(t, at.options())
	old := sign(t, c, web, 0)
	news := c.Changed()
	changed := func() bool {
		select {
		case <-news:
			news = c.Changed()
			return true
		default:
			return false
		}
	}
	step := func(after time.Duration) {
		t.Helper()
		at.now = at.now.Add(after)
		if err := c.Step(); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(phase ca.Phase, roots int, news bool) {
		t.Helper()
		if s, n := c.Status(), changed(); s.Phase != phase || len(s.Roots) != roots || n != news {
			t.Fatalf("%s with %d roots, news %v; want %s with %d, %v", s.Phase, len(s.Roots), n, phase, roots, news)
		}
	}
	if err := c.Advance(); !errors.Is(err, ca.ErrStable) {
		t.Errorf("Advance with nothing under way: %v", err)
	}
	expect(ca.Stable, 1, false)
	if err := c.Rotate(); err != nil {
		t.Fatal(err)
	}
	expect(ca.Introduced, 2, true)
	if err := c.Rotate(); !errors.Is(err, ca.ErrRotating) {
		t.Errorf("a second rotation: %v", err)
	}
	step(24*time.Hour - 1)
	expect(ca.Introduced, 2, false)
	if got := sign(t, c, web, 0); bytes.Equal(got.Leaf.RawIssuer, old.Leaf.RawIssuer) == false {
		t.Error("the next root signs before everybody knows it")
	}
	step(1)
	expect(ca.Retiring, 2, true) // the order changes: who signs comes first
	mine := sign(t, c, web, 0)
	if bytes.Equal(mine.Leaf.RawIssuer, old.Leaf.RawIssuer) {
		t.Error("the old root still signs")
	}
	step(24*time.Hour - 1)
	expect(ca.Retiring, 2, false)
	step(1)
	expect(ca.Stable, 1, true)
	if err := verify(mine.Chain, c.Roots(), at.now); err != nil {
		t.Error(err)
	}
	if err := verify(old.Chain, c.Roots(), old.Leaf.NotBefore); err == nil {
		t.Error("the old root is still believed")
	}
}

// TestLongestCertificateDecides: a certificate of a week stretches the overlap to a week, also when it is given in the middle of it.
func TestLongestCertificateDecides(t *testing.T) {
	at := newClock()
	c := open(t, at.options())
	if err := c.Rotate(); err != nil {
		t.Fatal(err)
	}
	at.now = at.now.Add(time.Hour)
	week := sign(t, c, web, 7*24*time.Hour)
	if due := c.Status().Due; due.Before(week.Leaf.NotAfter) {
		t.Errorf("the next root signs at %s, before the certificate of a week ends at %s", due, week.Leaf.NotAfter)
	}
}

// TestRootNearItsEndGetsASuccessor by itself, in time for both halves of the overlap.
func TestRootNearItsEndGetsASuccessor(t *testing.T) {
	for _, life := range []time.Duration{50 * 24 * time.Hour, 4 * 24 * time.Hour} {
		at := newClock()
		c := open(t, at.options(func(o *ca.Options) { o.RootTTL = life }))
		first := c.Status().Signs
		w := &workload{ttl: 24 * time.Hour}
		for at.now.Before(first.NotAfter.Add(time.Hour)) {
			if err := c.Step(); err != nil {
				t.Fatal(err)
			}
			w.step(t, c, at.now)
			if err := verify(w.cert.Chain, c.Roots(), at.now); err != nil {
				t.Fatalf("root of %s, %s: %v", life, at.now.Sub(first.NotBefore), err)
			}
			at.now = at.now.Add(time.Hour)
		}
		if got := c.Status(); got.Signs.Serial == first.Serial {
			t.Errorf("the root of %s has ended and still signs", life)
		}
	}
}

func ExampleCA_Rotate() {
	o := ca.DefaultOptions()
	o.Plugged = ""
	c, err := ca.Open(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Status().Phase, len(c.Status().Roots))
	for _, step := range []func() error{c.Rotate, c.Advance, c.Advance} {
		if err := step(); err != nil {
			fmt.Println(err)
		}
		fmt.Println(c.Status().Phase, len(c.Status().Roots))
	}
	// Output:
	// stable 1
	// introduced 2
	// retiring 2
	// stable 1
}
