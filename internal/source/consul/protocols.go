package consul

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"fairway/internal/servers"
)

// followProtocols follows what service-defaults say. first is closed once that was read, or cannot be.
func (s *Source) followProtocols(ctx context.Context, first chan struct{}) {
	var f following
	fails := 0
	done := sync.OnceFunc(func() { close(first) })
	for {
		at, err := f.server(ctx, s.line)
		if err != nil {
			return
		}
		var l protocols
		meta, err := f.ask(ctx, s.line, at, query{path: "/v1/config/service-defaults", into: &l})
		if status := refused(err); status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			// an old Consul has none, and a token need not have the right; services go without
			done()
			fails++
			s.log.Debug("service-defaults cannot be read", "registry", s.name, "error", err)
			if !(servers.Retry{Base: 5 * time.Second, Max: 5 * time.Minute}).Wait(ctx, fails) {
				return
			}
			continue
		}
		if err != nil {
			s.failed(ctx, at, err)
			continue
		}
		fails = 0
		s.setProtocols(l)
		done()
		f.next(ctx, f.answered(at, meta), 25*time.Millisecond)
	}
}

func (s *Source) setProtocols(l protocols) {
	now := l.by
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(now, s.protocols) {
		return
	}
	was := s.protocols
	s.protocols = now
	for name, v := range s.services {
		if was[name] != now[name] {
			s.refetch(v)
		}
	}
}
