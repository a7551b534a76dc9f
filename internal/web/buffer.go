package web

import (
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bytes of answers that wait for their readers.
const (
	mostOfAnswer = 4 << 20  // of one; a longer one is written while the page makes it, and holds its seat
	mostUnsent   = 64 << 20 // of all answers of a server that are complete and not yet taken
)

// buffered keeps an answer until it is complete. If a page flushes, or its answer is long, it writes through from then on.
type buffered struct {
	http.ResponseWriter
	code    int
	body    []byte
	through bool
}

// WriteHeader is an http.ResponseWriter's.
func (b *buffered) WriteHeader(code int) {
	if b.through || code < http.StatusOK {
		b.ResponseWriter.WriteHeader(code)
		return
	}
	if b.code == 0 {
		b.code = code
	}
}

// Write is an http.ResponseWriter's.
func (b *buffered) Write(p []byte) (int, error) {
	if !b.through && len(b.body)+len(p) > mostOfAnswer {
		if err := b.pass(); err != nil {
			return 0, err
		}
	}
	if b.through {
		return b.ResponseWriter.Write(p)
	}
	b.body = append(b.body, p...)
	return len(p), nil
}

// pass writes the kept part, and from then on writes directly.
func (b *buffered) pass() error {
	b.through = true
	body := b.body
	b.body = nil
	if b.code != 0 {
		b.ResponseWriter.WriteHeader(b.code)
	}
	if len(body) == 0 {
		return nil
	}
	_, err := b.ResponseWriter.Write(body)
	return err
}

// FlushError is for http.ResponseController.
func (b *buffered) FlushError() error {
	if !b.through {
		if err := b.pass(); err != nil {
			return err
		}
	}
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (b *buffered) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// unsent holds the complete answers of a server that are not yet taken. If they have too many bytes together, it cuts the oldest one of the
// address that has most bytes.
type unsent struct {
	mu    sync.Mutex
	bytes int
	by    map[netip.Prefix]*addressUnsent
}

type addressUnsent struct {
	bytes   int
	answers []*unsentAnswer // oldest first
}

type unsentAnswer struct {
	bytes int
	cut   func()
}

func newUnsent() *unsent { return &unsent{by: map[netip.Prefix]*addressUnsent{}} }

// send writes an answer to its client.
func (u *unsent) send(b *buffered, to netip.Prefix) {
	if b.through {
		return
	}
	control := http.NewResponseController(b.ResponseWriter)
	one := &unsentAnswer{len(b.body), func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) }}
	u.add(one, to)
	defer u.remove(one, to)
	_ = b.pass() // an error means that the client has left or was cut
}

func (u *unsent) add(one *unsentAnswer, to netip.Prefix) {
	u.mu.Lock()
	defer u.mu.Unlock()
	own := u.by[to]
	if own == nil {
		own = &addressUnsent{}
		u.by[to] = own
	}
	own.answers = append(own.answers, one)
	own.bytes, u.bytes = own.bytes+one.bytes, u.bytes+one.bytes
	for u.bytes > mostUnsent {
		u.cutOldest()
	}
}

// cutOldest cuts the oldest answer of the address that has most bytes unsent. A cut answer no longer counts.
func (u *unsent) cutOldest() {
	var most *addressUnsent
	for _, c := range u.by {
		if most == nil || c.bytes > most.bytes {
			most = c
		}
	}
	oldest := most.answers[0]
	oldest.cut()
	most.answers = most.answers[1:]
	most.bytes, u.bytes = most.bytes-oldest.bytes, u.bytes-oldest.bytes
}

func (u *unsent) remove(one *unsentAnswer, to netip.Prefix) {
	u.mu.Lock()
	defer u.mu.Unlock()
	own := u.by[to]
	if own == nil {
		return // it was cut
	}
	if at := slices.Index(own.answers, one); at >= 0 {
		own.answers = slices.Delete(own.answers, at, at+1)
		own.bytes, u.bytes = own.bytes-one.bytes, u.bytes-one.bytes
	}
	if len(own.answers) == 0 {
		delete(u.by, to)
	}
}
