package xds

import (
	"slices"
	"sync"

	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// refusing counts, for each proxy, the streams on which the client refuses some resource, by xdstype.Counted of its type. So a
// scrape does not have to look at every stream.
type refusing struct {
	mu sync.Mutex
	by map[string]map[library.ProxyID]int
}

// move takes a proxy's stream from the labels that it was counted under to others. Neither list names one twice.
func (r *refusing) move(id library.ProxyID, from, to []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, label := range from {
		proxies := r.by[label]
		if proxies[id]--; proxies[id] == 0 {
			delete(proxies, id)
		}
	}
	for _, label := range to {
		if r.by[label] == nil {
			r.by[label] = map[library.ProxyID]int{}
		}
		r.by[label][id]++
	}
}

// Refusing counts the proxies that refuse some of their resources, by xdstype.Counted of the type: a type that is sent in parts
// counts as the whole.
func (s *Server) Refusing() map[string]int {
	s.refusing.mu.Lock()
	defer s.refusing.mu.Unlock()
	out := make(map[string]int, len(s.refusing.by))
	for label, proxies := range s.refusing.by {
		out[label] = len(proxies)
	}
	return out
}

// countRefusing updates the count of the types that the stream's client refuses. Only the handler's goroutine calls it.
func (s *stream) countRefusing(types []string) {
	var now []string
	for _, typ := range types {
		if label := xdstype.Counted(typ); !slices.Contains(now, label) {
			now = append(now, label)
		}
	}
	if slices.Sort(now); !slices.Equal(now, s.refuses) {
		s.server.refusing.move(s.proxy, s.refuses, now)
		s.refuses = now
	}
}
