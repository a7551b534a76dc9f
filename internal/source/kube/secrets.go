package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
)

// maxSecrets is how many Secrets and ConfigMaps are watched at once unless the options say otherwise. Each has a watch of its own.
const maxSecrets = 10_000

// wanted are the Secrets and ConfigMaps that somebody wants.
type wanted struct {
	more chan struct{} // holds a token when something has changed

	mu      sync.Mutex
	all     map[config.Key]struct{}
	changed map[config.Key]struct{} // since they were seen to
}

func newWanted() *wanted {
	return &wanted{more: make(chan struct{}, 1), all: map[config.Key]struct{}{}, changed: map[config.Key]struct{}{}}
}

// Want sets which objects are wanted from now on, and which no longer: Secrets, and ConfigMaps with authorities, which are
// read only if they are wanted. It does not block, and may be called before Run and while it runs, from one goroutine at a
// time.
func (s *Source) Want(more, less []config.Key) {
	w := s.wanted
	w.mu.Lock()
	for _, k := range more {
		w.all[k], w.changed[k] = struct{}{}, struct{}{}
	}
	for _, k := range less {
		delete(w.all, k)
		w.changed[k] = struct{}{}
	}
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// take lists what has changed, and whether each is wanted.
func (w *wanted) take() map[config.Key]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[config.Key]bool{}
	for of := range w.changed {
		_, out[of] = w.all[of]
	}
	clear(w.changed)
	return out
}

// single is the feed of one Secret or ConfigMap.
type single struct {
	*feed
	stop func() // nil: it does not run yet, for there are too many
	done chan struct{}
}

// follow keeps a feed for each object that is wanted, until ctx ends.
func (s *Source) follow(ctx context.Context, out *outbox) {
	all, idle := map[config.Key]*single{}, map[config.Key]*single{}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wanted.more:
		}
		for of, is := range s.wanted.take() {
			f, has := all[of]
			switch {
			case is && !has:
				all[of] = &single{feed: newFeed(wantedKind(s.o, s.clients, of), s.o, out), done: make(chan struct{})}
				idle[of] = all[of]
			case !is && has:
				f.end()
				delete(all, of)
				delete(idle, of)
				f.forget()
			}
		}
		for of, f := range idle {
			if len(all)-len(idle) >= s.o.Secrets {
				f.refuse(s.o.Secrets)
				continue
			}
			delete(idle, of)
			f.start(ctx)
		}
	}
	for _, f := range all {
		f.end()
	}
}

func (f *single) start(ctx context.Context) {
	ctx, f.stop = context.WithCancel(ctx)
	f.out.put(nil, map[string][]mesh.Problem{f.title(): nil}) // it may have been refused
	go func() {
		defer close(f.done)
		f.run(ctx)
	}()
}

func (f *single) end() {
	if f.stop != nil {
		f.stop()
		<-f.done
	}
}

// forget takes back everything that the feed handed over. The object is not wanted any more.
func (f *single) forget() {
	problems := map[string][]mesh.Problem{f.title(): nil}
	f.takeBack(problems)
	f.out.drop(f.kind.key())
	f.out.setState(f.title(), "")
	f.out.put([]source.Shard{{Key: f.shard(""), Whole: true}}, problems)
	for _, p := range f.parts {
		p.costs.Drop()
	}
}

// drop notes that an object is not kept up to date any more.
func (b *outbox) drop(of config.Key) {
	b.change(func() {
		b.lookedUp = slices.DeleteFunc(b.lookedUp, func(o config.Key) bool { return o == of })
		b.dropped = append(b.dropped, of)
	})
}

// refuse reports the problem of an object that is one too many. For those that wait for it, it does not exist.
func (f *single) refuse(most int) {
	f.out.put(nil, map[string][]mesh.Problem{f.title(): {{
		Object: f.ref(), Code: code.TooMuch, Severity: mesh.Error,
		Message: fmt.Sprintf("the %s is not read: %d others are wanted, the most that are", f.kind.name, most),
		Fix:     "name fewer Secrets and ConfigMaps",
	}}})
	f.out.done(f.kind)
}
