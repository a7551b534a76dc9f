package xds

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/status"

	"fairway/internal/limit"
)

// rates limits the rate of new streams: those of proved identities, and those of addresses without one. The two limits are
// separate.
type rates struct {
	burst      int
	all        *rate.Limiter
	addresses  *limit.Keyed[netip.Prefix]
	certified  *rate.Limiter
	identities *limit.Keyed[string]
}

// ofOneIdentity is the largest share of the streams of proved identities that one of them may have. The rest is left to the others.
const ofOneIdentity = 0.8

// certifiedWait is how long a stream of a proved caller waits: all proxies of a large mesh come back at once after a restart.
const certifiedWait = 30 * time.Second

// lookAgain is about how often waiting streams check whether other addresses have left them a surplus.
const lookAgain = 20 * time.Millisecond

func newRates(o Options) rates {
	perSecond, burst := rate.Inf, max(1, int(math.Ceil(o.StreamsPerSecond)))
	if o.StreamsPerSecond > 0 {
		perSecond = rate.Limit(o.StreamsPerSecond)
	}
	address := limit.Rate{PerSecond: o.AddressStreamsPerSecond, Burst: max(burst, int(math.Ceil(o.AddressStreamsPerSecond)))}
	return rates{
		burst: burst, all: rate.NewLimiter(perSecond, burst), certified: rate.NewLimiter(perSecond, burst),
		addresses:  limit.New[netip.Prefix](address, time.Now),
		identities: limit.New[string](limit.Rate{PerSecond: ofOneIdentity * o.StreamsPerSecond, Burst: burst}, time.Now),
	}
}

// admit holds new streams to their rates.
func (s *Server) admit(ctx context.Context, from netip.Prefix) error {
	if s.opts.Certified != nil {
		if who := s.opts.Certified(ctx); who != "" {
			return s.admitCertified(ctx, who)
		}
	}
	if err := s.addressTurn(ctx, from); err != nil || s.opts.StreamsPerSecond <= 0 {
		return err
	}
	return reserve(ctx, s.rates.all, 0, s.opts.StreamWait, s.opts)
}

// addressTurn waits until a stream of an address may come: by the rate of the address, or because others have left much of theirs.
func (s *Server) addressTurn(ctx context.Context, from netip.Prefix) error {
	spare := float64(s.rates.burst) / 2
	late := time.NewTimer(s.opts.StreamWait)
	defer late.Stop()
	for !s.rates.addresses.Allow(from) && s.rates.all.Tokens() <= spare {
		pause := time.NewTimer(lookAgain/2 + rand.N(lookAgain))
		select {
		case <-pause.C:
		case <-late.C:
			pause.Stop()
			return refuse(ReasonRate, errTooFastFrom(s.opts))
		case <-ctx.Done():
			pause.Stop()
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return nil
}

// admitCertified limits the streams of proved identities: each identity to its share, and all of them to a rate of their own.
func (s *Server) admitCertified(ctx context.Context, who string) error {
	wait, ok := s.rates.identities.Within(who, certifiedWait)
	if !ok {
		return refuse(ReasonRate, errTooFast(s.opts))
	}
	return reserve(ctx, s.rates.certified, wait, certifiedWait, s.opts)
}

// reserve waits for a stream's turn by a rate, and at least so long.
func reserve(ctx context.Context, by *rate.Limiter, atLeast, patience time.Duration, o Options) error {
	r := by.Reserve()
	d := r.Delay()
	if d > patience {
		r.Cancel()
		return refuse(ReasonRate, errTooFast(o))
	}
	if d = max(d, atLeast); d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.Cancel()
		return status.FromContextError(ctx.Err()).Err()
	}
}
