package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/mesh"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// lane keeps one namespace up to date, or all of them. Its fields are its own goroutine's.
type lane struct {
	of        *Source
	namespace string
	bounds    budget.Bounds
	keep      time.Duration

	at       int                 // which server is asked
	index    uint64              // up to which everything has been heard; 0: nothing has been read
	unsure   bool                // something may have been missed: everything is listed again
	token    string              // that everything was read with: another may see more, or less
	lost     time.Time           // since when a server does not know what was read; zero: none
	services map[key][]*record   // in order of id
	heard    map[key]uint64      // the index up to which a service was read by itself, beyond index
	ledger   *budget.Ledger[key] // what services cost
	listed   time.Time           // when everything was read last
	ports    map[key]int         // of services that were handed over
	dirty    map[key]struct{}    // services that changed since they were handed over
	noRoom   map[key]struct{}    // services whose rows are not handed over: they have too many ports
}

func newLane(of *Source, namespace string, o Options) *lane {
	l := &lane{
		of: of, namespace: namespace, bounds: o.Limits.Bounds(), keep: o.Kept(defaultKeep), ledger: budget.NewLedger[key](of.account),
		services: map[key][]*record{}, heard: map[key]uint64{}, dirty: map[key]struct{}{}, noRoom: map[key]struct{}{}, ports: map[key]int{},
	}
	return l
}

// errMissed says that events may have been missed. It is nobody's fault.
var errMissed = errors.New("events may have been missed; everything is listed again")

// errRoom says that what was left out may have room now.
var errRoom = errors.New("what was left out may have room; everything is listed again")

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
			l.of.standing(l, fmt.Errorf("%s: %w", address, err))
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
		l.of.standing(l, fmt.Errorf("%s: nothing is up to date yet after %s; it is still being read", c.Address(), platform.Patience))
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
		l.unsure = l.unsure || isDenied(err) // who may not follow lists each time
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
		l.of.standing(l, nil)
	}
	if sure {
		fresh()
	}
	// One that was not sure hears of it at once: there are events beyond the index.
	doubt := time.NewTimer(doubtTime)
	defer doubt.Stop()
	room := time.NewTicker(roomTime)
	defer room.Stop()
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
		case h, more := <-events:
			if !more {
				return sure, errors.New("the stream of events ended")
			}
			if sure, err = l.hear(h, events, sure, fresh); err != nil {
				return sure, err
			}
		}
	}
}

// hear takes what happened, with what has happened since, and hands over what changed. sure says that nothing was missed.
func (l *lane) hear(h happening, events <-chan happening, sure bool, fresh func()) (bool, error) {
	begun := time.Now()
	defer func() { l.flush(begun) }()
	for n, more := 0, true; more; n++ {
		switch {
		case h.err != nil:
			return sure, fmt.Errorf("the stream of events ended: %w", h.err)
		case h.index <= l.index:
			if !sure && h.index == l.index { // this one had been heard, so those that follow are all
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
	doubtTime  = 2 * time.Second  // for which a stream may say nothing though there is something to say
	lasting    = 10 * time.Second // is a stream that is followed anew without a pause
	mostBreaks = 5                // streams in a row that end sooner before that is told
	roomTime   = 5 * time.Second  // between looks whether there is room for what was left out
	mostEvents = 1000             // are taken before what changed is handed over
)

// missedNothing asks for the list's index: nothing has changed where it is the lane's.
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

// explained says what would be right where Nomad refuses.
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

// list reads everything.
func (l *lane) list(ctx context.Context, c *api.Client) error {
	keys, over, index, err := l.names(ctx, c)
	if err != nil {
		return err
	}
	begun := time.Now()
	read, err := l.each(ctx, c, keys)
	if err == nil {
		err = l.believe(index, len(keys))
	}
	if err != nil {
		return err
	}
	draft := l.ledger.Draft()
	draft.Leave(over)
	for _, k := range sortedKeys(read) { // so that what is left out depends on nothing else
		f := read[k]
		if f.noRoom { // has the account know of what there is too much
			draft.Set(k, budget.Cost{Bytes: l.bounds.Bytes + 1})
			f.over--
		}
		draft.Leave(f.over)
		f.records = slices.DeleteFunc(f.records, func(r *record) bool { return !charge(draft, k, r, 1) })
		read[k] = f
	}
	draft.Commit()
	l.ledger = draft
	l.replace(read)
	l.index, l.unsure, l.listed = max(index, 1), false, begun
	l.flush(begun)
	return nil
}

// found is what was read of one service.
type found struct {
	records []*record
	over    int  // registrations that were left out
	noRoom  bool // some of them because there is no room for their bytes
	bytes   int64
	index   uint64
}

// each reads services, some at once, and no more of them than there may be bytes.
func (l *lane) each(ctx context.Context, c *api.Client, keys []key) (map[key]found, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var asking sync.WaitGroup
	bytes := int64(0)
	out := make(map[key]found, len(keys))
	next := make(chan key)
	for range min(atOnce, len(keys)) {
		asking.Go(func() {
			for k := range next {
				f, err := l.registrations(ctx, c, k)
				if err != nil {
					stop(fmt.Errorf("service %s: %w", shown(k.namespace+"/"+k.name), err))
					continue
				}
				mu.Lock()
				if bytes += f.bytes; bytes > l.bounds.Bytes {
					f = found{over: f.over + len(f.records), index: f.index, noRoom: true}
				}
				out[k] = f
				mu.Unlock()
			}
		})
	}
	for _, k := range keys {
		if ctx.Err() != nil {
			break
		}
		next <- k
	}
	close(next)
	asking.Wait()
	return out, context.Cause(ctx)
}

// charge adds a record to what its service costs, or, where n is -1, takes it away. false: there is no room for it.
func charge(to *budget.Ledger[key], k key, r *record, n int) bool {
	c := to.Of(k)
	if c.Things == 0 {
		c = platform.Cost(0, 0, 0)
	}
	c.Endpoints += n
	c.Bytes += int64(n) * r.bytes()
	return to.Set(k, c)
}

// believe says whether a list counts. A server whose index is less than what was heard has lost what it knew, or is another's; what
// it knows now counts once it is no less than half of what was read, or after a while.
func (l *lane) believe(index uint64, services int) error {
	if index >= l.index || 2*services >= len(l.services) {
		l.lost = time.Time{}
		return nil
	}
	now := time.Now()
	if l.lost.IsZero() {
		l.lost = now
	}
	if now.Sub(l.lost) >= l.keep {
		l.lost = time.Time{}
		return nil
	}
	return fmt.Errorf(
		"the server has lost what it knew (its index is %d, and was %d): of %d services it has %d; what was read stays for %s",
		index, l.index, len(l.services), services, l.keep)
}

// replace makes what was read all there is.
func (l *lane) replace(read map[key]found) {
	for k := range l.services {
		if f, is := read[k]; !is || len(f.records) == 0 {
			l.drop(k)
		}
	}
	clear(l.heard)
	for _, k := range sortedKeys(read) {
		f := read[k]
		var members []*record
		for _, r := range f.records {
			was := len(members)
			if members, _ = put(members, r); len(members) == was {
				charge(l.ledger, k, r, -1) // it was there twice
			}
		}
		if len(members) == 0 {
			l.drop(k)
			continue
		}
		before := l.services[k]
		if before == nil {
			l.of.services.Add(1)
		}
		l.services[k], l.heard[k] = members, f.index
		if !slices.EqualFunc(before, members, func(a, b *record) bool { return a.same(b) }) {
			l.dirty[k] = struct{}{}
		} else {
			l.chargePorts(k, l.ports[k])
		}
	}
	for k := range l.noRoom {
		l.dirty[k] = struct{}{}
	}
}

func (l *lane) drop(k key) {
	if _, is := l.services[k]; is {
		delete(l.services, k)
		l.ledger.Remove(k)
		l.dirty[k] = struct{}{}
		l.of.services.Add(-1)
	}
}

// Types of events.
const (
	registered   = "ServiceRegistration"
	deregistered = "ServiceDeregistration"
)

// take takes what happened at one index.
func (l *lane) take(h happening) error {
	for _, e := range h.events {
		if e.topic != api.TopicService {
			continue
		}
		if e.service == nil {
			return fmt.Errorf("event %d tells of no registration: %w", h.index, errMissed)
		}
		if l.heard[e.of] >= h.index {
			continue // what was read of the service is newer
		}
		switch e.kind {
		case registered:
			l.register(e.of, e.service)
		case deregistered:
			l.deregister(e.of, e.service.id)
		}
	}
	l.index = h.index
	return nil
}

func (l *lane) register(k key, r *record) {
	members, known := l.services[k]
	old := find(members, r.id)
	if old != nil {
		charge(l.ledger, k, old, -1)
	}
	if !charge(l.ledger, k, r, 1) {
		if old != nil { // what is known of it is not what there is, and there is no room for that
			charge(l.ledger, k, old, 1)
			l.deregister(k, r.id)
		}
		return
	}
	if !known {
		l.of.services.Add(1)
	}
	members, changed := put(members, r)
	if l.services[k] = members; changed {
		l.dirty[k] = struct{}{}
	}
}

func (l *lane) deregister(k key, id string) {
	members := l.services[k]
	old := find(members, id)
	if old == nil {
		return
	}
	charge(l.ledger, k, old, -1)
	members = slices.DeleteFunc(members, func(m *record) bool { return m.id == id })
	if len(members) == 0 {
		l.drop(k)
		return
	}
	l.services[k], l.dirty[k] = members, struct{}{}
}

// chargePorts charges the ports of a service. false: there is no room for them.
func (l *lane) chargePorts(k key, ports int) bool {
	c := l.ledger.Of(k)
	c.Ports = max(ports-1, 0)
	if !l.ledger.Set(k, c) {
		return false
	}
	l.ports[k] = ports
	return true
}

// flush hands over what changed.
func (l *lane) flush(begun time.Time) {
	problems := map[string][]mesh.Problem{}
	var shards []source.Shard
	for _, k := range sortedKeys(l.dirty) {
		place, members := platform.Part(k.namespace, k.name), l.services[k]
		delete(l.noRoom, k)
		if len(members) == 0 {
			delete(l.ports, k)
			shards = append(shards, l.of.rows.Gone(k.namespace, k.name))
			problems[place] = nil
			continue
		}
		service, wrong := serviceOf(l.of.name, k, members)
		shard, more := l.of.rows.Rows(service)
		ports := 0
		for _, row := range shard.Rows.Services {
			ports = len(row.Ports)
		}
		if !l.chargePorts(k, ports) {
			l.noRoom[k] = struct{}{}
			shard, more = l.of.rows.Gone(k.namespace, k.name), append(more, l.of.rows.TooManyPorts(service, ports, l.bounds))
		}
		shards = append(shards, shard)
		problems[place] = append(wrong, more...)
	}
	clear(l.dirty)
	l.of.hand(l, begun, shards, problems)
}
