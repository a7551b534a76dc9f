package secrets

import (
	"context"
	"crypto"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The wait between attempts doubles from firstWait to longestWait; each is shortened at random by up to a third. Before the first
// certificate, and after the end of one, it is at most startingWait; else it is never more than a part of the certificate's remaining life.
const (
	firstWait    = time.Second
	longestWait  = 5 * time.Minute
	startingWait = 10 * time.Second
	partOfRest   = 20
	lookAtClock  = time.Minute      // timers do not run while a machine sleeps
	soonest      = 10 * time.Second // random, after the control plane is back: all proxies notice that together
)

// renewer keeps the workload's certificate new, by asking an authority. Its fields belong to run's goroutine.
type renewer struct {
	secrets   *Secrets
	authority *Authority
	issuer    issuer        // nil: the authority over the network
	key       crypto.Signer // of the request that has not been answered yet: a join token admits one key, however often it is asked with
	failures  int
}

// issuer answers a request with a chain; its last element holds the roots to trust.
type issuer func(ctx context.Context, csr []byte) ([]string, error)

func (r *renewer) run(ctx context.Context) error {
	if r.issuer == nil {
		r.issuer = r.secrets.ask
	}
	r.resume()
	due := r.secrets.opts.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var answer chan error
		timer.Reset(min(due.Sub(r.secrets.opts.Now()), lookAtClock))
		select {
		case answer = <-r.secrets.asks:
		case <-r.secrets.controlPlane:
			if soon := r.secrets.opts.Now().Add(rand.N(soonest)); r.failures > 0 && soon.Before(due) {
				due = soon
			}
			continue
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		if answer == nil && r.secrets.opts.Now().Before(due) {
			continue
		}
		var err error
		due, err = r.renew(ctx)
		if answer != nil {
			answer <- err
		}
	}
}

// renew asks once and returns when to ask again.
func (r *renewer) renew(ctx context.Context) (due time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.authority.Timeout)
	defer cancel()
	due, err = r.attempt(ctx)
	if err == nil {
		r.failures, r.key = 0, nil
		return due, nil
	}
	if ctx.Err() == context.Canceled {
		return due, err // the agent stops
	}
	if status.Code(err) == codes.Unauthenticated {
		r.secrets.keptRefused.Store(r.secrets.keptInForce())
	}
	r.failures++
	due = r.secrets.opts.Now().Add(r.wait())
	r.secrets.fail(DefaultName, err)
	if ends := r.ends(); ends.IsZero() {
		r.secrets.opts.Log.Error("no new certificate, and none yet", "attempt", r.failures, "again", due, "error", err)
	} else {
		r.secrets.opts.Log.Error("no new certificate; what there is stays", "attempt", r.failures, "again", due, "ends", ends, "error", err)
	}
	return due, err
}

func (r *renewer) attempt(ctx context.Context) (time.Time, error) {
	if r.key == nil {
		k, err := newKey(r.authority.RSABits)
		if err != nil {
			return time.Time{}, err
		}
		r.key = k
	}
	csr, err := newRequest(r.key)
	if err != nil {
		return time.Time{}, err
	}
	began := time.Now()
	answer, err := r.issuer(ctx, csr)
	r.secrets.counts.Request(time.Since(began), err)
	if err != nil {
		if status.Code(err) == codes.InvalidArgument {
			r.key = nil // maybe the key is wrong
		}
		return time.Time{}, err
	}
	p, t, err := read(answer, r.key)
	if err != nil {
		return time.Time{}, err
	}
	due := r.due(p)
	if err := r.secrets.set(p, t, due); err != nil {
		return time.Time{}, err
	}
	return due, r.secrets.write(p)
}

// due returns when a certificate that has just come is replaced.
func (r *renewer) due(p *pair) time.Time {
	now, ends := r.secrets.opts.Now(), p.certs[0].NotAfter
	left := r.authority.Grace + r.authority.Jitter*(2*rand.Float64()-1)
	left = min(max(left, 0.05), 0.95)
	return ends.Add(-time.Duration(left * float64(ends.Sub(now))))
}

func (r *renewer) ends() time.Time {
	r.secrets.mu.Lock()
	defer r.secrets.mu.Unlock()
	if r.secrets.pair == nil {
		return time.Time{}
	}
	return r.secrets.pair.certs[0].NotAfter
}

// wait returns how long to leave the authority alone after so many failures.
func (r *renewer) wait() time.Duration {
	most := longestWait
	if ends := r.ends(); !ends.After(r.secrets.opts.Now()) { // none yet, or one that has expired
		most = startingWait
	} else if rest := ends.Sub(r.secrets.opts.Now()) / partOfRest; rest < most {
		most = max(rest, firstWait)
	}
	w := firstWait << min(r.failures-1, 20)
	if w > most || w <= 0 {
		w = most
	}
	return w - time.Duration(rand.Float64()*float64(w)/3)
}
