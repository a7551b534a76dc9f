package platform

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
)

// Stats are the counters of a source.
type Stats struct {
	Objects    int           // services, or objects, that it has
	Reconnects uint64        // how often its server was called anew after it could not be
	Lag        time.Duration // that the last change took from the server's answer until it was handed over
	LastChange time.Time     // when something was handed over that the server had changed; zero: never
}

// Outbox hands on the rows of a source. Several goroutines may use it. Start must be called first.
//
// It bounds how many rows and problems one source hands on: a large change is handed on in parts, and the next part once the one before
// is in force; problems of places beyond a bound are counted.
type Outbox struct {
	Name    string          // of the source
	Account *budget.Account // with a problem to report; nil: there is none
	Sink    source.Sink
	LeftOut func() uint64 // how many things are left out; nil: as Account has it

	counting sync.Mutex // held for moments, mu perhaps before it
	stats    Stats

	mu     sync.Mutex // held while a part waits for the one before it
	stale  source.Reasons
	why    string // the source is not up to date, as it was reported; empty: it is
	synced bool

	ended    <-chan struct{}
	paced    source.Paced // nil: the sink is not paced
	ahead    int          // rows handed on since it was last waited for that they are in force
	refusals *budget.Refusals
	reported map[string][]mesh.Problem // of the places that refusals remember
	withheld map[uint64]struct{}       // digests of places with problems that are only counted
	leftOut  uint64                    // the number that was reported
}

// Start sets where everything goes until ctx ends. hide takes secrets out of texts; nil: it has none.
func (b *Outbox) Start(ctx context.Context, sink source.Sink, hide func(string) string) {
	b.ended = ctx.Done()
	b.paced, _ = sink.(source.Paced)
	if b.Sink = sink; hide != nil {
		b.Sink = source.Hiding(sink, hide)
	}
}

// Put hands on shards, and problems by place; begun is when the answer that they are from was there.
func (b *Outbox) Put(begun time.Time, shards []source.Shard, problems map[string][]mesh.Problem) {
	b.apply(begun, source.Update{Shards: shards, Problems: problems})
}

// Synced hands on the last part of the start state: everything before and in it counts as one state from then on. Later
// calls only put.
func (b *Outbox) Synced(begun time.Time, shards []source.Shard, problems map[string][]mesh.Problem) {
	b.apply(begun, source.Update{Shards: shards, Problems: problems, Synced: true})
}

func (b *Outbox) apply(begun time.Time, u source.Update) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u.Problems = b.withhold(u.Problems)
	u.LeftOut = b.left()
	if u.Synced = u.Synced && !b.synced; !u.Synced && len(u.Shards)+len(u.Problems) == 0 && u.LeftOut == nil {
		return
	}
	b.synced = b.synced || u.Synced
	for {
		part, rest := b.cut(u.Shards)
		if len(rest) == 0 {
			break
		}
		b.Sink.Apply(source.Update{Shards: part})
		u.Shards = rest
		b.pause()
	}
	b.Sink.Apply(u)
	now := time.Now()
	b.count(func(c *Stats) { c.LastChange, c.Lag = now, now.Sub(begun) })
}

func (b *Outbox) count(change func(*Stats)) {
	b.counting.Lock()
	defer b.counting.Unlock()
	change(&b.stats)
}

// left returns how many things are left out, if the number has changed since it was reported.
func (b *Outbox) left() *uint64 {
	n := uint64(0)
	switch {
	case b.LeftOut != nil:
		n = b.LeftOut()
	case b.Account != nil:
		n = b.Account.Left()
	}
	if n == b.leftOut {
		return nil
	}
	b.leftOut = n
	return &n
}

// mostRows is how many services and slices are handed on before it is waited for that they are in force. A shard is whole all the same.
// One part is no more than the pacer puts into one turn.
const mostRows = source.PieceRows

// mostPause is how long a part waits for the one before it to be in force.
const mostPause = 2 * time.Second

// cut takes as many shards off the front as are handed on at once.
func (b *Outbox) cut(all []source.Shard) (part, rest []source.Shard) {
	for i, s := range all {
		rows := max(s.Rows.Len()+s.Gone.Len(), 1)
		if b.ahead > 0 && b.ahead+rows > mostRows {
			if i == 0 {
				b.pause()
			} else {
				return all[:i], all[i:]
			}
		}
		b.ahead += rows
	}
	return all, nil
}

// pause waits until the rows handed on are in force, or for a while.
func (b *Outbox) pause() {
	b.ahead = 0
	if b.paced == nil {
		return
	}
	late := time.NewTimer(mostPause)
	defer late.Stop()
	select {
	case <-b.paced.InForce():
	case <-late.C:
	case <-b.ended:
	}
}

// note notes that a place has problems. false: there are too many such places.
func (b *Outbox) note(place string) bool {
	at := xxhash.Sum64String(place)
	if _, is := b.withheld[at]; is && b.refusals.Full() {
		return false
	}
	if b.refusals.Add(place) {
		b.forget(place)
		return true
	}
	if len(b.withheld) < mostWithheld {
		b.withheld[at] = struct{}{}
	}
	return false
}

// mostWithheld bounds the digests. Beyond it the number of refusals may count some twice.
const mostWithheld = 200_000

func (b *Outbox) isWithheld(place string) bool {
	if len(b.withheld) == 0 {
		return false
	}
	_, is := b.withheld[xxhash.Sum64String(place)]
	return is
}

// forget notes that a place is not withheld any more.
func (b *Outbox) forget(place string) {
	if len(b.withheld) == 0 {
		return
	}
	if delete(b.withheld, xxhash.Sum64String(place)); len(b.withheld) == 0 {
		b.refusals.Begin()
	}
}

// Reported reports whether problems of a place were reported, or only counted, and not taken back.
func (b *Outbox) Reported(place string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reported[place]) > 0 || b.isWithheld(place)
}

// Places returns the places with this prefix with problems that were reported and not taken back. They are bounded.
func (b *Outbox) Places(prefix string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for place := range b.reported {
		if strings.HasPrefix(place, prefix) {
			out = append(out, place)
		}
	}
	return out
}

// Recount forgets the problems that were only counted: the source is about to be read anew.
func (b *Outbox) Recount() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if clear(b.withheld); b.refusals != nil {
		b.refusals.Begin()
	}
}

// Stale reports that the source is not up to date, and why. A repeated reason changes nothing; a new one comes before the earlier ones of
// the same outage.
func (b *Outbox) Stale(why error) {
	text := printable.Text(why.Error(), printable.Long)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale.Add(text) {
		b.setStale(b.stale.String())
	}
}

// Fresh reports that the source is up to date again.
func (b *Outbox) Fresh() { b.SetStale("") }

// SetStale reports why the source is not up to date, in place of all that Stale reported; empty: it is up to date.
func (b *Outbox) SetStale(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale.Clear()
	b.setStale(why)
}

func (b *Outbox) setStale(why string) {
	if why == b.why {
		return
	}
	if b.why = why; why == "" {
		b.count(func(c *Stats) { c.Reconnects++ })
	}
	b.Sink.Apply(source.Update{Stale: why, Fresh: why == ""})
}

// Has sets how many services there are now.
func (b *Outbox) Has(objects int) {
	b.count(func(c *Stats) { c.Objects = objects })
}

// Stats returns the counters. A source returns them as its own.
func (b *Outbox) Stats() Stats {
	b.counting.Lock()
	defer b.counting.Unlock()
	return b.stats
}
