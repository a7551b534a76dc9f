package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"fairway/internal/reading"
)

// Question describes how the answer of one request is read. Ask puts it into a context, so that it reaches the transport below a client
// library.
type Question struct {
	// Within bounds the time until the answer begins; 0: Calls.Header.
	Within time.Duration
	// Endless is for streams of events: only a pause ends them, whatever their length.
	Endless bool
	// Read reads an answer of status 200 as it comes. The library then finds null in its place, and returns what Read returns.
	// nil: the library reads the answer itself.
	Read func(io.Reader) error
}

type questionKey struct{}

// Ask returns a context for requests that are answered as q says.
func Ask(ctx context.Context, q Question) context.Context {
	return context.WithValue(ctx, questionKey{}, q)
}

const (
	// errorBytes is how much is read of the body of an error answer.
	errorBytes = 2 << 10
	// slack and leastRate bound how long an answer takes: slack, and a second for each leastRate bytes. Time in which the answer waits for
	// its reader does not count.
	slack     = 10 * time.Second
	leastRate = 64 << 10
	// mostTime bounds the time of any answer.
	mostTime = 3 * time.Minute
)

// late ends a request that takes too long, and keeps the reason.
type late struct {
	cancel context.CancelFunc
	is     atomic.Bool
}

// after ends the request after d, unless stop is called before.
func (l *late) after(d time.Duration) (stop func()) {
	t := time.AfterFunc(d, func() {
		l.is.Store(true)
		l.cancel()
	})
	return func() { t.Stop() }
}

// RoundTrip sends a request as Reach, Calls and the request's Question say.
func (c caller) RoundTrip(q *http.Request) (*http.Response, error) {
	outer := q.Context()
	how, _ := outer.Value(questionKey{}).(Question)
	ctx, cancel := context.WithCancel(outer)
	q = q.WithContext(ctx) // thousands may wait: only changed parts are copied
	q.Header = q.Header.Clone()
	if err := c.prove(q); err != nil {
		cancel()
		return nil, err
	}
	over := &late{cancel: cancel}
	begun := func() {}
	if how.Within > 0 {
		begun = over.after(how.Within)
	}
	answer, err := c.next.RoundTrip(q)
	begun()
	if err != nil {
		cancel()
		if over.is.Load() {
			return nil, fmt.Errorf("it did not answer within %s", how.Within)
		}
		return nil, c.hide(err)
	}
	if answer.ContentLength > c.most && !how.Endless {
		answer.Body.Close()
		cancel()
		return nil, c.tooLarge()
	}
	c.bound(outer, answer, how, over)
	return answer, nil
}

// bound puts the bounds around an answer's body.
func (c caller) bound(ctx context.Context, answer *http.Response, how Question, over *late) {
	paced := &body{from: answer.Body, caller: c, late: over, endless: how.Endless, idle: c.idle}
	out := struct {
		io.Reader
		io.Closer
	}{paced, paced}
	turn := reading.From(ctx)
	switch {
	case answer.StatusCode != http.StatusOK:
		out.Reader = io.LimitReader(paced, errorBytes)
	case turn != nil:
		out.Reader = turn.Reader(ctx, paced)
	}
	if how.Read != nil && answer.StatusCode == http.StatusOK {
		from := out.Reader
		out.Reader = &lateBody{take: func() error { return c.hide(how.Read(from)) }}
		answer.ContentLength = -1
	}
	answer.Body = out
}

// lateBody is the body that a library gets if the answer was read before it.
type lateBody struct {
	take func() error
	rest *bytes.Reader
}

// Read reads the answer itself when it is called first.
func (t *lateBody) Read(p []byte) (int, error) {
	if t.rest == nil {
		t.rest = bytes.NewReader([]byte("null"))
		if err := t.take(); err != nil {
			t.rest.Reset(nil)
			return 0, err
		}
	}
	return t.rest.Read(p)
}

// hide removes the credentials that the server was sent from an error's text.
func (c caller) hide(err error) error {
	if c.secrets == nil {
		return err
	}
	return c.secrets.Error(err)
}

func (c caller) tooLarge() error {
	return fmt.Errorf("the answer has more than %d MiB; nothing of it is taken (maxAnswerMiB)", c.most>>20)
}

// body is an answer's body, bounded in bytes and in time. Only the time in which a reader waits for more of it counts.
type body struct {
	from    io.ReadCloser
	caller  caller
	late    *late
	endless bool
	idle    time.Duration
	read    int64
	spent   time.Duration
}

// errSlow reports that an answer comes too slowly.
var errSlow = errors.New("the answer comes too slowly")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	room := b.idle
	if !b.endless {
		room = min(room, slack+time.Duration(b.read)*time.Second/leastRate-b.spent, mostTime-b.spent)
	}
	if room <= 0 {
		b.late.cancel()
		return 0, fmt.Errorf("%w: %d bytes in %s", errSlow, b.read, b.spent.Round(time.Second))
	}
	begun := time.Now()
	stop := b.late.after(room)
	n, err := b.from.Read(p)
	stop()
	b.spent += time.Since(begun)
	if b.read += int64(n); b.read > b.caller.most && !b.endless {
		return 0, b.caller.tooLarge()
	}
	switch {
	case err == nil || !b.late.is.Load():
	case room == b.idle:
		err = fmt.Errorf("nothing more of the answer came for %s", b.idle)
	default:
		err = fmt.Errorf("%w: %d bytes in %s", errSlow, b.read, b.spent.Round(time.Second))
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.late.cancel()
	return b.from.Close()
}

// server names the target of a redirect, without its path and query, which may hold a secret.
func server(scheme, host string) string { return strings.ToLower(scheme) + "://" + host }
