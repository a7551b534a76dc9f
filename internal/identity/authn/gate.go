package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooMany is the error for callers from an address with too many recent failures, unless their credentials are known to be good.
var ErrTooMany = errors.New("too many failed authentications")

// Gate authenticates the callers of one or more servers, and limits the rate of failures for each address. A certificate that verifies, and
// a token that was good before, always pass, because many proxies may share an address. So the limit is only for credentials that must be
// sent to another server. It is a Method, and safe for concurrent use.
type Gate struct {
	method   Method
	failures *Failures
	now      func() time.Time

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]time.Time // until when tokens are known good, by digest
}

// Bounds on the tokens that are known good.
const (
	mostGood = 10_000    // of the young, and of the old
	goodFor  = time.Hour // at most; a token's own end comes first
)

// NewGate returns a gate before method that counts failures in failures.
func NewGate(method Method, failures *Failures, now func() time.Time) *Gate {
	return &Gate{method: method, failures: failures, now: now, young: map[[sha256.Size]byte]time.Time{}}
}

// Through returns a gate before another method that shares failures with this one.
func (g *Gate) Through(method Method) *Gate { return NewGate(method, g.failures, g.now) }

// Authenticate implements Method. It fails with ErrTooMany, without a look at the token, if the address is past its rate.
func (g *Gate) Authenticate(ctx context.Context, c Credentials) (Caller, error) {
	key := digestOf(c)
	if c.Token != "" && !g.good(key) {
		done, ok := g.failures.Begin(c.Addr)
		if !ok {
			if caller, ok := g.Certified(ctx, c); ok {
				return caller, nil
			}
			return Caller{}, fmt.Errorf("%w from %s: try again in a few seconds", ErrTooMany, c.Addr)
		}
		defer done()
	}
	caller, err := g.method.Authenticate(ctx, c)
	switch {
	case err == nil:
		if c.Token != "" && caller.By == "token" {
			g.remember(key, caller.Until)
		}
	case !errors.Is(err, ErrNone) && ctx.Err() == nil:
		g.failures.Failed(c.Addr)
	}
	return caller, err
}

// Certified returns the caller that a certificate proves, if one verifies. It calls no other server.
func (g *Gate) Certified(ctx context.Context, c Credentials) (Caller, bool) {
	if len(c.Certificates) == 0 {
		return Caller{}, false
	}
	c.Token = ""
	caller, err := g.method.Authenticate(ctx, c)
	return caller, err == nil
}

func digestOf(c Credentials) [sha256.Size]byte {
	return sha256.Sum256([]byte(c.Cluster + "\x00" + c.Token))
}

func (g *Gate) good(key [sha256.Size]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.young[key]
	if !ok {
		until, ok = g.old[key]
	}
	return ok && g.now().Before(until)
}

// remember keeps that a token is good. Once there are mostGood young ones, they become the old ones, and the former old ones are dropped.
func (g *Gate) remember(key [sha256.Size]byte, until time.Time) {
	if most := g.now().Add(goodFor); until.IsZero() || until.After(most) {
		until = most
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.young) >= mostGood {
		g.young, g.old = map[[sha256.Size]byte]time.Time{}, g.young
	}
	g.young[key] = until
}
