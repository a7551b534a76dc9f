package secrets

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/test/rig"
)

// asked is one request to the authority of a test.
type asked struct {
	at  time.Duration // since the start
	key string
	err error
}

// watchRenewals runs a renewer in a bubble of time for a while. fail decides on each request's fate.
func watchRenewals(t *testing.T, ttl, during time.Duration, fail func(n int, at time.Duration) error) (out []asked, expired bool) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		o := ca.DefaultOptions()
		o.Plugged = ""
		authority, err := ca.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(
			Options{Socket: "x", Now: time.Now, Log: slog.New(slog.DiscardHandler),
				Authority: &Authority{Addresses: []string{"x"}, TTL: ttl}},
		)
		if err != nil {
			t.Fatal(err)
		}
		r := &renewer{secrets: s, authority: s.opts.Authority, issuer: func(_ context.Context, text []byte) ([]string, error) {
			a := asked{at: time.Since(start)}
			csr, err := ca.ParseRequest(text)
			if err != nil {
				t.Error(err)
			}
			a.key = digest(csr.RawSubjectPublicKeyInfo)
			a.err = fail(len(out), a.at)
			out = append(out, a)
			if a.err != nil {
				return nil, a.err
			}
			signed, err := authority.Sign(csr, ca.Grant{ID: identity.ID{TrustDomain: "td", Namespace: "a", ServiceAccount: "b"}, TTL: ttl})
			return []string{string(signed.Chain), string(signed.Roots)}, err
		}}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- r.run(ctx) }()
		for time.Since(start) < during {
			time.Sleep(time.Minute)
			synctest.Wait()
			expired = expired || !r.ends().IsZero() && s.Ready() != nil
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		wantMetrics(t, s, out)
	})
	return out, expired
}

// wantMetrics compares the metrics with the requests, and with the certificate in force.
func wantMetrics(t *testing.T, s *Secrets, requests []asked) {
	t.Helper()
	failed := 0
	for _, a := range requests {
		if a.err != nil {
			failed++
		}
	}
	got := rig.Metrics(t, s.Collector())
	for series, want := range map[string]float64{
		`num_outgoing_requests{request_type="csr"}`:        float64(len(requests)),
		`num_failed_outgoing_requests{request_type="csr"}`: float64(failed),
		`outgoing_latency{request_type="csr"}`:             0, // in a bubble of time
	} {
		if value, has := got[series]; !has || value != want {
			t.Errorf("%s is %v, want %v", series, value, want)
		}
	}
	ends := s.known[DefaultName].NotAfter
	if value := got[`cert_expiry_seconds{resource_name="default"}`]; !ends.IsZero() && value != time.Until(ends).Seconds() {
		t.Errorf("the certificate ends in %v s, want %s", value, time.Until(ends))
	}
	if _, has := got[`cert_expiry_seconds{resource_name="ROOTCA"}`]; has != !ends.IsZero() {
		t.Errorf("roots have an end: %v", has)
	}
}

// TestReplacedAtHalfOfItsLife, give or take, each time with another key.
func TestReplacedAtHalfOfItsLife(t *testing.T) {
	got, expired := watchRenewals(t, 24*time.Hour, 10*24*time.Hour, func(int, time.Duration) error { return nil })
	if expired || len(got) < 18 || len(got) > 25 {
		t.Fatalf("%d requests in ten days, expired %v", len(got), expired)
	}
	keys := map[string]bool{}
	gaps := map[time.Duration]bool{}
	for i, a := range got {
		keys[a.key] = true
		if i == 0 {
			continue
		}
		gap := a.at - got[i-1].at
		gaps[gap] = true
		if gap < 24*time.Hour*40/100 || gap > 24*time.Hour*60/100+time.Minute {
			t.Errorf("replaced after %s", gap)
		}
	}
	if len(keys) != len(got) || len(gaps) < len(got)/2 {
		t.Errorf("%d keys for %d certificates, %d different gaps", len(keys), len(got), len(gaps))
	}
}

// TestAnHourIsWorkable: a life of an hour, with an authority that is away for twenty minutes of each.
func TestAnHourIsWorkable(t *testing.T) {
	got, expired := watchRenewals(t, time.Hour, 24*time.Hour, func(_ int, at time.Duration) error {
		if at > time.Hour && at%time.Hour < 20*time.Minute {
			return errors.New("away")
		}
		return nil
	})
	if expired {
		t.Error("the certificate ended")
	}
	if len(got) > 24*20 {
		t.Errorf("%d requests in a day", len(got))
	}
}

// TestBackOff: the waits grow, vary, and stay well below the remaining life; the request's key stays until it is answered.
func TestBackOff(t *testing.T) {
	got, expired := watchRenewals(t, 24*time.Hour, 20*time.Hour, func(n int, _ time.Duration) error {
		if n > 0 {
			return status.Error(codes.Unauthenticated, "no")
		}
		return nil
	})
	if expired || len(got) < 50 {
		t.Fatalf("%d requests, expired %v", len(got), expired)
	}
	for i := 2; i < len(got); i++ {
		if got[i].key != got[1].key {
			t.Fatal("a request that was not answered is repeated with another key")
		}
		if gap := got[i].at - got[i-1].at; gap > longestWait+time.Second {
			t.Errorf("attempt %d waits %s", i, gap)
		}
	}
	if first, last := got[2].at-got[1].at, got[40].at-got[39].at; first > 2*time.Second || last < time.Minute {
		t.Errorf("waits %s at first and %s later", first, last)
	}
}

// TestNobodyWaitsLongForTheFirst: at the start an authority that comes up is found within seconds.
func TestNobodyWaitsLongForTheFirst(t *testing.T) {
	got, _ := watchRenewals(t, 24*time.Hour, 2*time.Hour, func(_ int, at time.Duration) error {
		if at < time.Hour {
			return errors.New("not up yet")
		}
		return nil
	})
	for i, a := range got {
		if i > 0 && a.at < time.Hour && a.at-got[i-1].at > startingWait+time.Second {
			t.Errorf("waited %s", a.at-got[i-1].at)
		}
	}
	if last := got[len(got)-1]; last.err != nil || last.at > time.Hour+startingWait {
		t.Errorf("the first certificate came after %s", last.at)
	}
}

// TestAnExpiredCertificate: an authority that stays away for longer than the certificate lasts is not asked every second by every workload.
func TestAnExpiredCertificate(t *testing.T) {
	got, expired := watchRenewals(t, time.Hour, 3*time.Hour, func(n int, _ time.Duration) error {
		if n > 0 {
			return errors.New("away")
		}
		return nil
	})
	after := 0
	for _, a := range got {
		if a.at > 61*time.Minute {
			after++
		}
	}
	if most := int(2 * time.Hour / startingWait * 3 / 2); !expired || after > most || after < most/3 {
		t.Errorf("expired %t; it was asked %d times in two hours after the end, at most %d times are expected", expired, after, most)
	}
}

// TestTheControlPlaneIsHeardOf: an authority that has been away is asked soon after the control plane has spoken, and
// one that has not failed is left alone.
func TestTheControlPlaneIsHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(
			Options{Socket: "x", Now: time.Now, Log: slog.New(slog.DiscardHandler), Authority: &Authority{Addresses: []string{"x"}}})
		if err != nil {
			t.Fatal(err)
		}
		var asked []time.Time
		r := &renewer{secrets: s, authority: s.opts.Authority, issuer: func(context.Context, []byte) ([]string, error) {
			asked = append(asked, time.Now())
			return nil, errors.New("away")
		}}
		s.pair = &pair{certs: []*x509.Certificate{{NotAfter: time.Now().Add(1000 * time.Hour)}}} // so a renewal is not urgent
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- r.run(ctx) }()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		n, at := len(asked), time.Now()
		if err := s.ConfirmBundle(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(soonest)
		synctest.Wait()
		if len(asked) != n+1 || asked[n].Sub(at) > soonest {
			t.Errorf("asked %d times more within %s", len(asked)-n, soonest)
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestABadKeyIsNotRepeated: an authority that calls the request itself wrong is asked with another one.
func TestABadKeyIsNotRepeated(t *testing.T) {
	got, _ := watchRenewals(t, 24*time.Hour, 10*time.Minute, func(n int, _ time.Duration) error {
		if n == 0 {
			return status.Error(codes.InvalidArgument, "bad request")
		}
		return nil
	})
	if len(got) != 2 || got[0].key == got[1].key {
		t.Errorf("%+v", got)
	}
}

func TestKeysAreHidden(t *testing.T) {
	const secret = "the secret itself"
	p := &pair{chain: []byte("chain"), key: identity.MakePrivate([]byte(secret))}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", p.key, "pair", p, "value", *p)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", p.key, "pair", p)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{p, *p, p.key, &p.key} {
			fmt.Fprintf(&log, format, v)
		}
	}
	if text, err := json.Marshal(map[string]any{"a": p.key}); err == nil {
		log.Write(text)
	}
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]")} {
		if strings.Contains(log.String(), form) {
			t.Errorf("the key is shown: %s", &log)
		}
	}
}

func TestJoinPrefixIsTheAuthoritys(t *testing.T) {
	if joinPrefix != authn.JoinPrefix {
		t.Errorf("%q and %q", joinPrefix, authn.JoinPrefix)
	}
}

func TestServerName(t *testing.T) {
	for address, want := range map[string]string{
		"istiod.mesh.svc:15012": "istiod.mesh.svc", "127.0.0.1:1": "istiod.istio-system.svc",
		"[::1]:1": "istiod.istio-system.svc", "localhost:1": "istiod.istio-system.svc", "10.0.0.1:1": "10.0.0.1",
	} {
		if got := serverName(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
