package relay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/agent/relay/wire"
)

// Status is the visible state of a relay; it is made for JSON.
type Status struct {
	Address    string          `json:"address"`
	Socket     string          `json:"socket"`
	Sessions   []SessionStatus `json:"sessions"` // oldest first
	Served     int             `json:"served"`   // sessions in all
	Reconnects int             `json:"reconnects"`
	Types      []TypeStatus    `json:"types"` // in order of their names
	Cache      *CacheStatus    `json:"cache,omitempty"`
}

// SessionStatus is one Envoy's stream, or what the agent has while there is no Envoy.
type SessionStatus struct {
	Began     time.Time `json:"began"`
	Alone     bool      `json:"alone,omitempty"`    // there is no Envoy, only the agent itself
	Connected bool      `json:"connected"`          // upstream
	Since     time.Time `json:"since,omitzero"`     // when that last changed
	Upstream  string    `json:"upstream,omitempty"` // address of the control plane
	Streams   uint64    `json:"streams"`            // upstream streams so far
	Error     string    `json:"error,omitempty"`    // how the last one ended, or why there is none
}

// TypeStatus counts the messages of one type.
type TypeStatus struct {
	Type      string    `json:"type"`
	Responses int       `json:"responses"` // from the control plane
	Resources int       `json:"resources"`
	Removed   int       `json:"removed"`
	Bytes     int64     `json:"bytes"`
	Cached    int       `json:"cached"`  // resources that came from the cache
	Refused   int       `json:"refused"` // responses that Envoy did not take
	Last      time.Time `json:"last,omitzero"`
	Names     []string  `json:"names,omitempty"` // of the last response, the first few
}

// CacheStatus describes the current cache.
type CacheStatus struct {
	File      string `json:"file"`
	Resources int64  `json:"resources"`
	Bytes     int64  `json:"bytes"` // of the file
	Current   bool   `json:"current"`
}

// counts are under the relay's lock.
type counts struct {
	sessions, reconnects int
	requests             int // of Envoy's
	unreached            int // attempts to reach the control plane that failed
	upstream, downstream ends
	types                map[string]*TypeStatus
}

// ends counts streams that ended: in the ordinary way, or by an error.
type ends struct{ cancelled, failed int }

// add counts one stream by how it ended; nil: in the ordinary way.
func (e *ends) add(err error) {
	switch code := status.Code(err); {
	case err == nil || errors.Is(err, errEnded) || errors.Is(err, context.Canceled),
		code == codes.Canceled, code == codes.DeadlineExceeded:
		e.cancelled++
	default:
		e.failed++
	}
}

// note changes the state that Status returns.
func (r *Relay) note(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

func (r *Relay) counted(typ string, do func(*TypeStatus)) {
	r.note(func() {
		t := r.counts.types[typ]
		if t == nil {
			t = &TypeStatus{Type: typ}
			r.counts.types[typ] = t
		}
		do(t)
	})
}

// shown is how many names of a response Status lists.
const shown = 10

func (r *Relay) count(resp wire.Response, size int) {
	r.counted(resp.Type, func(t *TypeStatus) {
		t.Responses++
		t.Resources += len(resp.Items)
		t.Removed += len(resp.Removed)
		t.Bytes += int64(size)
		t.Last, t.Names = r.o.Now(), nil
		for _, i := range resp.Items[:min(shown, len(resp.Items))] {
			t.Names = append(t.Names, i.Name)
		}
		for _, name := range resp.Removed[:min(shown, len(resp.Removed))] {
			t.Names = append(t.Names, "-"+name)
		}
	})
}

func (r *Relay) countCached(typ string, n int) {
	r.counted(typ, func(t *TypeStatus) { t.Cached += n })
}

func (r *Relay) countRefused(typ string) {
	r.counted(typ, func(t *TypeStatus) { t.Refused++ })
}

// Status returns a copy of the state.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Status{
		Address:    r.o.Address,
		Socket:     r.o.Socket,
		Served:     r.counts.sessions,
		Reconnects: r.counts.reconnects,
		Sessions:   []SessionStatus{},
		Types:      []TypeStatus{},
	}
	for _, s := range r.sessions {
		out.Sessions = append(out.Sessions, *s.status)
	}
	if r.ownSession != nil {
		out.Sessions = append(out.Sessions, *r.ownSession.status)
	}
	for _, typ := range slices.Sorted(maps.Keys(r.counts.types)) {
		out.Types = append(out.Types, *r.counts.types[typ])
	}
	if r.current != nil {
		c := &CacheStatus{File: r.current.Path(), Current: r.current.UpToDate()}
		c.Resources, c.Bytes = r.current.Summary()
		out.Cache = c
	}
	return out
}
