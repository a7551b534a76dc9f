package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"fairway/internal/limit"
)

// Requests at once. Requests from this machine's loopback have seats of their own, so that strangers cannot keep out a user who
// investigates.
const (
	mostAtOnce  = 128 // from other machines
	mostOfOne   = 32  // from one address, or one IPv6 network of 64 bits
	mostOfLocal = 128
	mostWaiting = 64              // requests of one address that wait for a seat
	seatWithin  = 2 * time.Second // how long a request waits for a seat
)

// pool holds the seats of some pages. An address has a fair share of them: it shrinks as other addresses come, and requests whose body is
// still arriving end if a newcomer needs a seat.
type pool struct {
	remote, local *limit.Seats[netip.Prefix]
}

func newPool() pool {
	return pool{
		remote: limit.NewSeats[netip.Prefix](mostAtOnce, mostOfOne, mostWaiting),
		local:  limit.NewSeats[netip.Prefix](mostOfLocal, mostOfLocal, mostWaiting),
	}
}

// take returns a seat for an address.
func (p pool) take(ctx context.Context, from netip.Prefix, local bool) (*limit.Seat[netip.Prefix], error) {
	ctx, stop := context.WithTimeout(ctx, seatWithin)
	defer stop()
	if local {
		return p.local.Take(ctx, from)
	}
	return p.remote.Take(ctx, from)
}

// seats makes every request take a seat of its page's pool while its answer is made. Then the seat is free: a client that reads slowly
// holds only a buffer.
func seats(h http.Handler, o Options) http.Handler {
	pools, unsent := []pool{newPool()}, newUnsent()
	for range o.Apart {
		pools = append(pools, newPool())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, local := network(r)
		var seat *limit.Seat[netip.Prefix]
		if !o.open(r) {
			var err error
			if seat, err = pools[o.pool(r)].take(r.Context(), from, local); err != nil {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "too many requests at once; try again", http.StatusServiceUnavailable)
				return
			}
			defer seat.Free()
		}
		answer := &buffered{ResponseWriter: w}
		if seat != nil && r.Body != nil && r.Body != http.NoBody {
			r.Body = &arriving{r.Body, seat, http.NewResponseController(w)}
		}
		h.ServeHTTP(answer, r)
		seat.Free()
		unsent.send(answer, from)
	})
}

// open reports whether a page takes no seat.
func (o Options) open(r *http.Request) bool {
	for _, path := range o.Open {
		if r.URL.Path == path && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			return true
		}
	}
	return false
}

// pool returns the number of the pool that a request takes a seat of: 0, or the place of its path in Apart, from 1.
func (o Options) pool(r *http.Request) int {
	for i, path := range o.Apart {
		if r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/") {
			return i + 1
		}
	}
	return 0
}

// network returns the network that a request comes from. It is local if it came over this machine's loopback, or over a Unix socket, which
// has no address.
func network(r *http.Request) (from netip.Prefix, local bool) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}, true
	}
	return limit.Network(at.Addr()), at.Addr().Unmap().IsLoopback()
}

// ErrSeatLost is the error of reading a body if the request lost its seat to a newcomer.
var ErrSeatLost = errors.New("the body came too slowly, and others needed its place; try again")

// arriving is the body of a request. While it is read the request's seat is idle, and may be given to a newcomer: then reading fails.
type arriving struct {
	io.ReadCloser
	seat    *limit.Seat[netip.Prefix]
	control *http.ResponseController
}

// Read is an io.Reader's.
func (a *arriving) Read(p []byte) (int, error) {
	// a writer without deadlines, as in tests, ends by itself
	if !a.seat.Idle(func() { _ = a.control.SetReadDeadline(time.Unix(1, 0)) }) {
		return 0, ErrSeatLost
	}
	n, err := a.ReadCloser.Read(p)
	if !a.seat.Busy() {
		return n, ErrSeatLost
	}
	return n, err
}
