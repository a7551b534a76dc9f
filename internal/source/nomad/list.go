package nomad

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// list reads everything.
func (l *lane) list(ctx context.Context, c *api.Client) error {
	keys, over, index, err := l.names(ctx, c)
	if err != nil {
		return err
	}
	begun := time.Now()
	read, err := l.each(ctx, c, keys)
	if err == nil {
		err = l.believe(index, len(keys))
	}
	if err != nil {
		return err
	}
	draft := l.ledger.Draft()
	draft.Leave(over)
	for _, k := range sortedKeys(read) { // so that what is left out depends on nothing else
		f := read[k]
		if f.noRoom { // has the account know of what there is too much
			draft.Set(k, budget.Cost{Bytes: l.bounds.Bytes + 1})
			f.over--
		}
		draft.Leave(f.over)
		f.records = slices.DeleteFunc(f.records, func(r *record) bool { return !charge(draft, k, r, 1) })
		read[k] = f
	}
	draft.Commit()
	l.ledger = draft
	l.replace(read)
	l.index, l.unsure, l.listed = max(index, 1), false, begun
	l.flush(begun)
	return nil
}

// found is what was read of one service.
type found struct {
	records []*record
	over    int  // registrations that were left out
	noRoom  bool // some of them because there is no room for their bytes
	bytes   int64
	index   uint64
}

// each reads services, some at once, and no more of them than there may be bytes.
func (l *lane) each(ctx context.Context, c *api.Client, keys []key) (map[key]found, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var asking sync.WaitGroup
	bytes := int64(0)
	out := make(map[key]found, len(keys))
	next := make(chan key)
	for range min(atOnce, len(keys)) {
		asking.Go(func() {
			for k := range next {
				f, err := l.registrations(ctx, c, k)
				if err != nil {
					stop(fmt.Errorf("service %s: %w", shown(k.namespace+"/"+k.name), err))
					continue
				}
				mu.Lock()
				if bytes += f.bytes; bytes > l.bounds.Bytes {
					f = found{over: f.over + len(f.records), index: f.index, noRoom: true}
				}
				out[k] = f
				mu.Unlock()
			}
		})
	}
	for _, k := range keys {
		if ctx.Err() != nil {
			break
		}
		next <- k
	}
	close(next)
	asking.Wait()
	return out, context.Cause(ctx)
}

// charge adds a record to what its service costs, or, where n is -1, takes it away. false: there is no room for it.
func charge(to *budget.Ledger[key], k key, r *record, n int) bool {
	c := to.Of(k)
	if c.Things == 0 {
		c = platform.Cost(0, 0, 0)
	}
	c.Endpoints += n
	c.Bytes += int64(n) * r.bytes()
	return to.Set(k, c)
}

// believe says whether a list counts. A server whose index is less than what was heard has lost what it knew, or is another's; what
// it knows now counts once it is no less than half of what was read, or after a while.
func (l *lane) believe(index uint64, services int) error {
	if index >= l.index || 2*services >= len(l.services) {
		l.lost = time.Time{}
		return nil
	}
	now := time.Now()
	if l.lost.IsZero() {
		l.lost = now
	}
	if now.Sub(l.lost) >= l.keep {
		l.lost = time.Time{}
		return nil
	}
	return fmt.Errorf(
		"the server has lost what it knew (its index is %d, and was %d): of %d services it has %d; what was read stays for %s",
		index, l.index, len(l.services), services, l.keep)
}

// replace makes what was read all there is.
func (l *lane) replace(read map[key]found) {
	for k := range l.services {
		if f, is := read[k]; !is || len(f.records) == 0 {
			l.drop(k)
		}
	}
	clear(l.heard)
	for _, k := range sortedKeys(read) {
		f := read[k]
		var members []*record
		for _, r := range f.records {
			was := len(members)
			if members, _ = put(members, r); len(members) == was {
				charge(l.ledger, k, r, -1) // it was there twice
			}
		}
		if len(members) == 0 {
			l.drop(k)
			continue
		}
		before := l.services[k]
		if before == nil {
			l.of.services.Add(1)
		}
		l.services[k], l.heard[k] = members, f.index
		if !slices.EqualFunc(before, members, func(a, b *record) bool { return a.same(b) }) {
			l.dirty[k] = struct{}{}
		} else {
			l.chargePorts(k, l.ports[k])
		}
	}
	for k := range l.noRoom {
		l.dirty[k] = struct{}{}
	}
}

func (l *lane) drop(k key) {
	if _, is := l.services[k]; is {
		delete(l.services, k)
		l.ledger.Remove(k)
		l.dirty[k] = struct{}{}
		l.of.services.Add(-1)
	}
}
