package platform

import (
	"sync"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source"
)

// Stats are what is counted of a source.
type Stats struct {
	Objects    int           // services, or objects, that it has
	Reconnects uint64        // how often its server was called anew after it could not be
	Lag        time.Duration // that the last change took from the server's answer until it was handed over
	LastChange time.Time     // when something was handed over that the server had changed; zero: never
}

// Outbox hands on what a source reads. Several goroutines may use it. The sink has to be set before.
type Outbox struct {
	Sink source.Sink

	mu     sync.Mutex
	stale  string
	synced bool
	stats  Stats
}

// Put hands on shards, and problems by place; begun is when the answer that they are from was there.
func (b *Outbox) Put(begun time.Time, shards []source.Shard, problems map[string][]mesh.Problem) {
	if len(shards)+len(problems) == 0 {
		return
	}
	b.apply(begun, source.Update{Shards: shards, Problems: problems})
}

// Synced hands on the last of what there was at the start: all that is said until then counts as one state from then on.
// Later calls only put.
func (b *Outbox) Synced(begun time.Time, shards []source.Shard, problems map[string][]mesh.Problem) {
	b.apply(begun, source.Update{Shards: shards, Problems: problems, Synced: true})
}

func (b *Outbox) apply(begun time.Time, u source.Update) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u.Synced = u.Synced && !b.synced
	b.synced = b.synced || u.Synced
	b.Sink.Apply(u)
	now := time.Now()
	b.stats.LastChange, b.stats.Lag = now, now.Sub(begun)
}

// Stale says that the source is not kept up to date, and why. Saying it again says nothing new.
func (b *Outbox) Stale(why error) {
	text := printable.Text(why.Error(), printable.Long)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale == text {
		return
	}
	b.stale = text
	b.Sink.Apply(source.Update{Stale: text})
}

// Fresh says that the source is up to date again.
func (b *Outbox) Fresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stale == "" {
		return
	}
	b.stale = ""
	b.stats.Reconnects++
	b.Sink.Apply(source.Update{Fresh: true})
}

// Has says how many services there are now.
func (b *Outbox) Has(objects int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Objects = objects
}

// Stats are what has been counted. A source has them as its own.
func (b *Outbox) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}
