package consul

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fairway/internal/servers"
)

// Times of the search through services without a waiting query.
const (
	sweep  = 30 * time.Second // after which they are looked through, whether or not something seems to have changed
	rest   = 3                // times what it took, before it is done again
	seeker = 8                // requests at once
	least  = 8                // services that are waited for, however few connections Consul takes
)

// watches returns how many services may have a waiting query.
func (s *Source) watches() int {
	switch {
	case s.o.MaxWatches > 0:
		return s.o.MaxWatches
	case s.line.wire.multiple.Load():
		return http2Watches
	}
	return http1Watches
}

// failed does what an error of a query asks for.
func (s *Source) failed(ctx context.Context, at *server, err error) {
	if ctx.Err() != nil || at.ctx.Err() != nil {
		return
	}
	if refused(err) == http.StatusTooManyRequests {
		s.reduceQueries(err)
		servers.DefaultRetry.Wait(ctx, 3)
		return
	}
	s.line.fail(at, err)
}

// reduceQueries reduces the number of services with a waiting query.
func (s *Source) reduceQueries(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := max(min(s.most, s.waitingQueries)/2, least)
	if now >= s.most {
		return
	}
	s.log.Warn("fewer services are waited for", "registry", s.name, "watches", now, "error", err)
	s.most = now
	for s.waitingQueries > s.most {
		s.displace()
	}
	s.followStates()
}

// follow reads a service, and waits for its changes if there is room.
func (s *Source) follow(v *service) {
	if s.waitingQueries < s.most {
		s.start(v)
		return
	}
	s.followStates()
	s.enqueue(v)
}

// start starts the waiting query of a service, once the service has been read.
func (s *Source) start(v *service) {
	v.ctx, v.stop = context.WithCancel(s.ctx)
	s.waitingQueries++
	if v.awaited = v.index == 0; v.awaited {
		s.enqueue(v)
		return
	}
	s.wait(v)
}

// wait waits for changes of a service that has been read.
func (s *Source) wait(v *service) {
	ctx := v.ctx
	s.workers.Go(func() { s.watch(ctx, v, pace{}) })
}

// release ends that.
func (s *Source) release(v *service) {
	v.stop()
	v.stop, v.ctx, v.awaited = nil, nil, false
	s.waitingQueries--
}

// refetch reads a service again.
func (s *Source) refetch(v *service) {
	v.index = 0
	if v.stop != nil {
		s.release(v)
		s.start(v)
		return
	}
	s.enqueue(v)
}

// coldest returns the service with a waiting query that has not changed for the longest time.
func (s *Source) coldest() *service {
	var out *service
	for _, v := range s.services {
		if v.stop != nil && (out == nil || v.changed.Before(out.changed)) {
			out = v
		}
	}
	return out
}

// displace ends the waiting query of the coldest service. An answer that was on its way is not taken, so the service is asked for once
// more.
func (s *Source) displace() {
	v := s.coldest()
	s.release(v)
	if v.index == 0 {
		s.enqueue(v)
		return
	}
	s.enqueueLook(v)
}

// promote starts a waiting query for a service that has changed, in the place of one that has not.
func (s *Source) promote(v *service) {
	if v.stop != nil || v.proxies || s.ctx.Err() != nil {
		return
	}
	if s.waitingQueries >= s.most {
		s.displace()
	}
	s.start(v)
}

// watch waits for changes of a service until ctx ends, or it is found to be proxies alone. Each query has a goroutine of its own: reading
// an answer makes a stack grow, to twice what thousands of others need that wait.
func (s *Source) watch(ctx context.Context, v *service, p pace) {
	at, err := s.line.get(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	index := v.index
	s.mu.Unlock()
	p.lastQuestion = time.Now()
	answered, err := s.ask(ctx, v, at, index)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		servers.Pause(ctx, s.handleError(ctx, v, at, err))
	default:
		s.mu.Lock()
		if v.proxies && v.stop != nil && ctx.Err() == nil {
			s.release(v)
		}
		s.mu.Unlock()
		p.next(ctx, answered != index, 10*time.Millisecond)
	}
	if ctx.Err() == nil {
		s.workers.Go(func() { s.watch(ctx, v, p) })
	}
}

// ask asks a server for a service and takes the answer.
func (s *Source) ask(ctx context.Context, v *service, at *server, index uint64) (answered uint64, err error) {
	all := &entries{most: s.o.Limits.Bounds().Bytes}
	asked := time.Now()
	meta, err := s.line.ask(ctx, at, query{
		path: "/v1/health/service/" + v.name, into: all, index: index, cached: true, seat: s.reads,
	})
	if err != nil {
		return 0, err
	}
	if ctx.Err() == nil {
		s.take(asked, time.Now(), v, meta, all)
	}
	return meta.LastIndex, nil
}

// handleError does what an error of a query for a service asks for. It returns for how long the service is not asked for.
func (s *Source) handleError(ctx context.Context, v *service, at *server, err error) time.Duration {
	var body *unreadable
	alone := errors.As(err, &body) || refused(err) == http.StatusBadRequest
	switch {
	case errors.Is(err, errQueueFull):
		return servers.DefaultRetry.After(2)
	case alone && ctx.Err() == nil && at.ctx.Err() == nil: // of one service, so the server may be well
		return servers.Retry{Base: 500 * time.Millisecond, Max: time.Minute}.After(s.unreadable(v, err))
	}
	s.failed(ctx, at, err)
	return 0
}

func (s *Source) wakeSearch() {
	select {
	case s.searches <- struct{}{}:
	default:
	}
}

// search looks through the services without a waiting query, when some service has changed and from time to time. It asks
// only for the index of each, and reads the service only if the index is new.
func (s *Source) search(ctx context.Context) {
	all := time.NewTicker(sweep)
	defer all.Stop()
	for {
		proxies := false
		select {
		case <-ctx.Done():
			return
		case <-s.searches:
		case <-all.C:
			proxies = true
		}
		begun := time.Now()
		s.seek(ctx, s.idleServices(proxies))
		pause := time.NewTimer(min(rest*time.Since(begun), sweep))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// idleServices returns the services without a waiting query, the last changed first.
func (s *Source) idleServices(proxies bool) []*service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !proxies && s.waitingQueries == len(s.services) {
		return nil
	}
	var out []*service
	for _, v := range s.services {
		if v.stop == nil && v.read && (proxies || !v.proxies) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *service) int {
		return cmp.Or(b.changed.Compare(a.changed), strings.Compare(a.name, b.name))
	})
	return out
}

func (s *Source) seek(ctx context.Context, all []*service) {
	if len(all) == 0 {
		return
	}
	work := make(chan *service)
	var group sync.WaitGroup
	for range min(seeker, len(all)) {
		group.Go(func() {
			for v := range work {
				s.look(ctx, v)
			}
		})
	}
	for _, v := range all {
		select {
		case work <- v:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	group.Wait()
}

// look reads a service if it has changed since it was read, and starts a waiting query for it then.
func (s *Source) look(ctx context.Context, v *service) {
	at, err := s.line.get(ctx)
	if err != nil {
		return
	}
	meta, err := s.line.ask(ctx, at, query{path: "/v1/catalog/service/" + v.name, into: anything{}, filter: `ServiceID == ""`})
	if err != nil {
		s.failed(ctx, at, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if meta.LastIndex != v.index {
		v.hot = true
		s.enqueue(v)
	}
}

// followStates follows failing checks, once: they show which of the services without a waiting query have changed.
func (s *Source) followStates() {
	if s.states {
		return
	}
	s.states = true
	for _, state := range []string{critical, warning} {
		s.workers.Go(func() { s.followState(s.ctx, state) })
	}
}

func (s *Source) followState(ctx context.Context, state string) {
	type key struct{ node, check string }
	var was map[key]string
	var f following
	for {
		at, err := f.server(ctx, s.line)
		if err != nil {
			return
		}
		var l checks
		meta, err := f.ask(ctx, s.line, at, query{path: "/v1/health/state/" + state, into: &l})
		if err != nil {
			s.failed(ctx, at, err)
			continue
		}
		now := make(map[key]string, len(l.all))
		changed := map[string]bool{}
		for _, c := range l.all {
			k := key{c.Node, c.CheckID}
			now[k] = c.ServiceName
			if _, had := was[k]; !had {
				changed[c.ServiceName] = true
			}
		}
		for k, name := range was {
			if _, has := now[k]; !has {
				changed[name] = true
			}
		}
		if was != nil {
			s.flipped(changed)
		}
		was = now
		f.next(ctx, f.answered(at, meta), 25*time.Millisecond)
	}
}

// flipped reads the services with changed checks; "" means all services of some node.
func (s *Source) flipped(names map[string]bool) {
	if names[""] {
		s.wakeSearch()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range names {
		if v := s.services[name]; v != nil && v.stop == nil && !v.proxies {
			v.hot = true
			s.enqueue(v)
		}
	}
}
