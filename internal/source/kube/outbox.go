package kube

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/kube/rows"
)

// outbox gathers what feeds say while the sink takes something, and hands it on as one Update. It knows which kinds are
// still waited for, and which are not kept up to date.
type outbox struct {
	sink  source.Sink   // nil: nothing is handed on
	ready chan struct{} // holds a token when there is something to hand on

	mu             sync.Mutex
	next           source.Update
	waiting        map[string]bool            // kinds that have not been listed yet
	down           map[string]*source.Reasons // of kinds that are not kept up to date
	synced         bool                       // Synced has been handed on
	reportedReason string                     // the reported reason, made of down
	lookedUp       []config.Key               // looked for one by one; reported once the rows that were put have been handed on
	dropped        []config.Key               // not kept up to date any more; reported before the rows that were put are handed on
	onRead         []func()                   // of kinds that have been read; called once the rows that were put have been handed on

	onLookup func(of config.Key, known bool) // is called with lookedUp and dropped
}

func newOutbox(sink source.Sink) *outbox {
	return &outbox{sink: sink, ready: make(chan struct{}, 1), waiting: map[string]bool{}, down: map[string]*source.Reasons{}}
}

// await notes that nothing is whole without a kind.
func (b *outbox) await(kind string) { b.waiting[kind] = true }

// put hands on what a feed found.
func (b *outbox) put(shards []source.Shard, problems map[string][]mesh.Problem) {
	b.change(func() {
		b.next.Shards = append(b.next.Shards, shards...)
		for at, list := range problems {
			if b.next.Problems == nil {
				b.next.Problems = map[string][]mesh.Problem{}
			}
			b.next.Problems[at] = list
		}
	})
}

// done notes that a kind is not waited for any more.
func (b *outbox) done(k kind) {
	b.change(func() {
		if k.onRead != nil {
			b.onRead = append(b.onRead, k.onRead)
		}
		if k.one == (rows.ID{}) {
			delete(b.waiting, k.name)
		} else {
			b.lookedUp = append(b.lookedUp, k.key())
		}
	})
}

// setState notes that a kind is kept up to date (why is empty), or why it is not.
func (b *outbox) setState(kind, why string) {
	b.change(func() {
		if why == "" {
			delete(b.down, kind)
			return
		}
		if b.down[kind] == nil {
			b.down[kind] = &source.Reasons{}
		}
		b.down[kind].Add(why)
	})
}

func (b *outbox) change(do func()) {
	if b.sink == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// run hands on until ctx ends.
func (b *outbox) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.ready:
		}
		u, some, looked, dropped, told := b.take()
		for _, of := range dropped {
			b.onLookup(of, false)
		}
		if some {
			b.sink.Apply(u)
		}
		for _, of := range looked {
			b.onLookup(of, true)
		}
		for _, tell := range told {
			tell()
		}
	}
}

func (b *outbox) take() (u source.Update, some bool, looked, dropped []config.Key, told []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, b.next = b.next, source.Update{}
	looked, dropped, told = b.lookedUp, b.dropped, b.onRead
	b.lookedUp, b.dropped, b.onRead = nil, nil, nil
	if len(b.waiting) == 0 && !b.synced {
		b.synced, u.Synced = true, true
	}
	if now := b.stale(); now != b.reportedReason {
		b.reportedReason = now
		u.Stale, u.Fresh = now, now == ""
	}
	return u, len(u.Shards)+len(u.Problems) > 0 || u.Synced || u.Fresh || u.Stale != "", looked, dropped, told
}

// stale returns which kinds are not kept up to date, and the reason of one.
func (b *outbox) stale() string {
	if len(b.down) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(b.down))
	why := ": " + b.down[names[0]].String()
	if more := len(names) - mostNames; more > 0 {
		return strings.Join(names[:mostNames], ", ") + " and others" + why
	}
	return strings.Join(names, ", ") + why
}

// mostNames is how many kinds are named that are not kept up to date.
const mostNames = 3
