package web

import (
	"net/http"
	"net/netip"
	"sync"

	"fairway/internal/limit"
)

// Requests at once. Requests from this machine's loopback have a limit of their own, so that strangers cannot keep
// those out who would look why.
const (
	mostAtOnce  = 128 // from other machines
	mostOfOne   = 32  // from one address, or one IPv6 network of 64 bits
	mostOfLocal = 128
)

// seats are the requests that are under way.
type seats struct {
	mu    sync.Mutex
	taken map[netip.Prefix]int // by address; the zero Prefix is this machine
	all   int                  // of other machines
}

func newSeats() *seats { return &seats{taken: map[netip.Prefix]int{}} }

func (s *seats) limit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := network(r)
		if !s.take(from) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once; try again", http.StatusServiceUnavailable)
			return
		}
		defer s.free(from)
		h.ServeHTTP(w, r)
	})
}

// network is where a request comes from; zero: this machine, over loopback or a Unix socket.
func network(r *http.Request) netip.Prefix {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || from.Addr().Unmap().IsLoopback() {
		return netip.Prefix{}
	}
	return limit.Network(from.Addr())
}

func (s *seats) take(from netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	local := from == netip.Prefix{}
	if local && s.taken[from] >= mostOfLocal || !local && (s.all >= mostAtOnce || s.taken[from] >= mostOfOne) {
		return false
	}
	s.taken[from]++
	if !local {
		s.all++
	}
	return true
}

func (s *seats) free(from netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[from]--; s.taken[from] == 0 {
		delete(s.taken, from)
	}
	if (from != netip.Prefix{}) {
		s.all--
	}
}
