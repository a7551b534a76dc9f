package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/mesh"
	"fairway/internal/servers"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// lane keeps one namespace up to date, or all of them. Its fields are its own goroutine's.
type lane struct {
	of        *Source
	namespace string
	bounds    budget.Bounds
	book      *platform.Book[key, *record]
	handed    int // services, when it handed something over last; guarded by the source

	at     int                // which server is asked
	index  uint64             // everything up to it has been received; 0: nothing has been read
	unsure bool               // something may have been missed: everything is listed again
	token  string             // that everything was read with: another may see more, or less
	readAt map[service]uint64 // the index that a service was read at by itself, beyond index
	listed time.Time          // when everything was read last
}

func newLane(of *Source, namespace string, o Options) *lane {
	book := &platform.Book[key, *record]{
		Registry: of.name, Rows: of.rows, Limits: o.Limits, Keep: o.Kept(defaultKeep), Place: "missing " + namespace, Compare: compareKey,
		Service: func(k service, all []*record) (*platform.Service, []mesh.Problem) { return serviceOf(of.name, k, all) },
	}
	return &lane{of: of, namespace: namespace, bounds: o.Limits.Bounds(), book: book.Open(of.account), readAt: map[service]uint64{}}
}

// errMissed says that events may have been missed. No server is at fault.
var errMissed = errors.New("events may have been missed; everything is listed again")

// errRoom says that there may be room now for services that were left out.
var errRoom = errors.New("there may be room for services that were left out; everything is listed again")

func (l *lane) run(ctx context.Context) {
	for fails := 0; ctx.Err() == nil; {
		begun, address := time.Now(), l.of.servers[l.at].Address()
		live, err := l.follow(ctx)
		if live && time.Since(begun) > lasting {
			fails = 0
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errRoom):
			l.unsure, fails = true, 0
			continue
		case errors.Is(err, errMissed):
			l.of.log.Info("everything is listed again", "namespace", l.namespace)
			l.unsure = true
		case !live:
			l.at = (l.at + 1) % len(l.of.servers)
		}
		if fails >= mostBreaks || !live && !errors.Is(err, errMissed) {
			l.of.setState(l, fmt.Errorf("%s: %w", address, err))
		}
		if fails++; fails > 1 && !servers.DefaultRetry.Wait(ctx, fails-1) {
			return
		}
	}
}

func (l *lane) query(ctx context.Context, namespace string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: namespace}).WithContext(ctx)
}

// follow reads everything if need be, and then what happens, until that ends. live says that it was up to date meanwhile.
func (l *lane) follow(ctx context.Context) (live bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := l.of.servers[l.at]
	token, err := l.of.reach.Token()
	if err != nil {
		return false, err
	}
	slow := platform.Slow(platform.Patience, func() {
		l.of.setState(l, fmt.Errorf("%s: nothing is up to date yet after %s; it is still being read", c.Address(), platform.Patience))
	})
	defer slow()
	if l.index == 0 || l.unsure || l.token != token {
		if err := l.list(ctx, c); err != nil {
			return false, err
		}
		l.token = token
	}
	events, err := l.stream(ctx, c)
	if err != nil {
		l.unsure = l.unsure || isDenied(err) // a lane that may not follow lists each time
		return false, err
	}
	defer func() {
		for stop(); ; {
			if _, more := <-events; !more { // its goroutine has ended
				return
			}
		}
	}()
	sure, err := l.missedNothing(ctx, c)
	if err != nil {
		return false, err
	}
	if now, err := l.of.reach.Token(); err != nil || now != token {
		return false, errors.Join(errMissed, err)
	}
	fresh := func() {
		slow()
		l.of.setState(l, nil)
	}
	if sure {
		fresh()
	}
	// If it is not sure whether the stream continues at the index, the stream proves it at once by events past the index.
	doubt := time.NewTimer(doubtTime)
	defer doubt.Stop()
	room := time.NewTicker(roomTime)
	defer room.Stop()
	missing := time.NewTimer(l.book.Wait(time.Now()))
	defer missing.Stop()
	for {
		select {
		case <-ctx.Done():
			return sure, ctx.Err()
		case <-doubt.C:
			if !sure {
				return false, errMissed
			}
		case <-room.C:
			if l.of.account.Room() && time.Since(l.listed) > roomTime {
				return sure, errRoom
			}
		case now := <-missing.C:
			l.book.Expire(now)
			l.flush(now)
			missing.Reset(l.book.Wait(now))
		case h, more := <-events:
			if !more {
				return sure, errors.New("the stream of events ended")
			}
			if sure, err = l.handle(h, events, sure, fresh); err != nil {
				return sure, err
			}
		}
	}
}

// handle takes what happened, with what has happened since, and hands over what changed. sure says that nothing was missed.
func (l *lane) handle(h happening, events <-chan happening, sure bool, fresh func()) (bool, error) {
	begun := time.Now()
	defer func() { l.flush(begun) }()
	for n, more := 0, true; more; n++ {
		switch {
		case h.err != nil:
			return sure, fmt.Errorf("the stream of events ended: %w", h.err)
		case h.index <= l.index:
			if !sure && h.index == l.index { // this one is known already, so no event before the next one is missing
				sure = true
				fresh()
			}
		case !sure:
			return false, errMissed
		default:
			if err := l.take(h); err != nil {
				return false, err
			}
		}
		if more = n < mostEvents; more {
			select {
			case h, more = <-events:
			default:
				more = false
			}
		}
	}
	return sure, nil
}

const (
	doubtTime  = 2 * time.Second  // how long a stream may be silent though there are changes
	lasting    = 10 * time.Second // is a stream that is followed anew without a pause
	mostBreaks = 5                // streams in a row that end sooner before that is reported
	roomTime   = 5 * time.Second  // between checks for room for services that were left out
	mostEvents = 1000             // are taken before what changed is handed over
)

// missedNothing asks for the list's index: if it is the lane's, nothing has changed.
func (l *lane) missedNothing(ctx context.Context, c *api.Client) (bool, error) {
	index, err := l.read(ctx, c, "/v1/services", l.namespace, (*platform.Stream).Skip)
	if err != nil {
		return false, err
	}
	if index < l.index {
		return false, errMissed // it is another server's, or it has lost what it knew
	}
	return index == l.index, nil
}

// explained adds what would be right to a refusal of Nomad's.
func explained(err error, namespace string) error {
	if !isDenied(err) {
		return err
	}
	if namespace == everywhere {
		return fmt.Errorf("%w: the token (tokenFile) may not read all namespaces; give it read-job in all, or name namespaces", err)
	}
	return fmt.Errorf("%w: the token (tokenFile) needs read-job in the namespace", err)
}

func isDenied(err error) bool {
	var refused api.UnexpectedResponseError
	return errors.As(err, &refused) && refused.StatusCode() == http.StatusForbidden
}
