package relay

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/agent/relay/cache"
	"fairway/internal/agent/relay/wire"
	"fairway/internal/xdstype"
)

// session is one stream of an Envoy, with its upstream streams one after the other. One goroutine owns it.
type session struct {
	relay  *Relay
	status *SessionStatus // for others; under the relay's lock
	down   *downstream
	isOwn  bool      // there is no Envoy, only the agent itself
	up     *upstream // nil between two attempts
	open   bool      // up can be sent to
	count  uint64    // of upstream streams

	nodeSent uint64    // number of the upstream stream that has the node
	since    time.Time // when up was opened

	node  []byte
	types map[string]*interest
	order []*interest // in the order of Envoy's first requests

	toDown []wire.Message
	toUp   []wire.Message

	cache   *cache.Cache // nil: nothing is kept
	writer  cache.Writer // as which it writes to the cache
	serve   bool         // Envoy's first requests are answered from the cache
	earlier *cache.Cache // what an earlier agent left, in case the control plane does not answer
	nonces  uint64       // of answers from the cache
	fails   int          // upstream streams in a row that brought nothing

	ownSent ownSent       // for the agent itself
	woken   chan struct{} // holds a token when the session has to check it

	retry, grace *time.Timer
}

func (r *Relay) newSession(down *downstream) *session {
	return &session{
		relay: r,
		down:  down,
		types: map[string]*interest{},
		woken: make(chan struct{}, 1),
		retry: stopped(),
		grace: stopped(),
	}
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// run serves the Envoy until its stream ends.
func (s *session) run(ctx context.Context) error {
	defer s.end()
	for {
		if err := s.step(ctx); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (s *session) end() {
	s.retry.Stop()
	s.grace.Stop()
	if s.up != nil {
		s.up.close()
	}
	s.relay.removeSession(s)
}

// step does one thing. Upstream is read only while nothing waits for Envoy.
func (s *session) step(ctx context.Context) error {
	var opened chan struct{}
	var toUp, fromUp, toDown chan wire.Message
	var ended, why chan error
	var first, next wire.Message
	if u := s.up; u != nil {
		ended, why = u.ended, u.why
		if !s.open {
			opened = u.opened
		}
		if len(s.toUp) > 0 {
			toUp, first = u.in, s.toUp[0]
		}
		if len(s.toDown) == 0 {
			fromUp = u.out
		}
	}
	if len(s.toDown) > 0 {
		toDown, next = s.down.out, s.toDown[0]
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.down.failed:
		return err
	case m := <-s.down.in:
		return s.ask(ctx, m)
	case toDown <- next:
		s.toDown = s.toDown[1:]
	case toUp <- first:
		s.toUp = s.toUp[1:]
	case <-opened:
		s.resume(ctx)
	case <-s.woken:
		s.takeOver(ctx) // a younger session may have been in the way
		s.keepWhenComplete()
		s.sendOwn(ctx)
	case m := <-fromUp:
		return s.forward(m)
	case err := <-ended:
		s.upstreamEnded(err)
	case err := <-why:
		s.unreached(err)
	case <-s.retry.C:
		s.connect(ctx)
	case <-s.grace.C:
		s.useEarlier(ctx)
	}
	return nil
}

// connect begins an attempt to reach the control plane.
func (s *session) connect(ctx context.Context) {
	s.count++
	s.up, s.open = connect(ctx, s.relay.conn, s.count), false
}

// resume sends the subscriptions of Envoy and of the agent itself on a new upstream stream.
func (s *session) resume(ctx context.Context) {
	s.open, s.toUp, s.since = true, nil, s.relay.o.Now()
	for _, t := range s.order {
		s.sendFirst(t)
	}
	s.sendOwn(ctx)
	s.relay.note(func() { s.status.Connected, s.status.Since, s.status.Streams = true, s.relay.o.Now(), s.count })
}

// sendFirst sends the first request about a type on an upstream stream.
func (s *session) sendFirst(t *interest) {
	r, ok := t.firstRequest()
	if !ok || !s.open {
		return
	}
	t.sentOn = s.count
	s.send(r)
}

// send queues a request; the first one of a stream carries the node.
func (s *session) send(r wire.Request) {
	if s.nodeSent != s.count {
		s.nodeSent, r.Node = s.count, s.node
	}
	s.toUp = append(s.toUp, r.Encode())
}

// refusals are the codes by which a control plane refuses a proxy, and not one stream of it.
var refusals = []codes.Code{
	codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.ResourceExhausted, codes.Unimplemented,
}

// upstreamEnded makes the session try again: soon if the stream had brought something, else after longer and longer waits.
func (s *session) upstreamEnded(err error) {
	s.up.close()
	if s.open && s.relay.o.Now().Sub(s.since) > s.relay.o.RetryMax {
		s.fails = 0 // there was nothing to say
	}
	wasOpen, served := s.open, s.open && s.fails == 0
	s.up, s.open, s.toUp = nil, false, nil
	if p := s.relay.o.Planes; p != nil && s.fails > 0 { // another one may serve
		p.Leave(err)
	}
	wait := s.relay.backoff(s.fails)
	s.fails++
	s.retry.Reset(wait)
	s.relay.note(func() {
		if s.status.Connected {
			s.relay.counts.reconnects++
		}
		if wasOpen {
			s.relay.counts.upstream.add(err)
		} else {
			s.relay.counts.unreached++
		}
		s.status.Connected, s.status.Since, s.status.Upstream, s.status.Error = false, s.relay.o.Now(), "", err.Error()
	})
	again := wait.Round(time.Millisecond)
	switch code := status.Code(err); {
	case served && code == codes.Unauthenticated: // a stream ends with its certificate or token; the next one shows the new one
		s.relay.o.Log.Info("the control plane has ended the stream: connecting again", "error", err, "again_in", again)
	case slices.Contains(refusals, code):
		s.relay.o.Log.Warn("the control plane refuses this proxy, which keeps what it has", "error", err, "again_in", again)
	default:
		s.relay.o.Log.Info("the control plane is away: the proxy keeps what it has", "error", err, "again_in", again)
	}
}

// unreached notes why the attempt under way has no connection yet.
func (s *session) unreached(err error) {
	if s.open {
		return
	}
	said := status.Convert(err).Message()
	fresh := false
	s.relay.note(func() {
		s.relay.counts.unreached++
		fresh, s.status.Error = s.status.Error != said, said
	})
	if fresh {
		s.relay.o.Log.Info("the control plane cannot be reached: the proxy keeps what it has", "error", said)
	}
}

// reconnect ends the upstream stream, so that the next one begins with what Envoy holds now.
func (s *session) reconnect(ctx context.Context) {
	if s.up == nil {
		return
	}
	s.up.close()
	s.toUp = nil
	s.retry.Stop()
	s.connect(ctx)
}

// forward hands a response on to Envoy.
func (s *session) forward(m wire.Message) error {
	raw := m[0]
	r, err := wire.DecodeResponse(raw)
	if err != nil {
		s.up.close()
		return status.Errorf(codes.Internal, "relay: the control plane's response: %v", err)
	}
	select {
	case who := <-s.up.peer:
		s.relay.note(func() { s.status.Upstream = who })
		s.relay.o.Log.Info("configuration comes from a control plane", "address", who, "stream", s.count)
	default:
	}
	s.fails = 0
	if t := s.relay.own.find(r.Type); t != nil {
		s.relay.count(r, len(raw))
		s.takeOwn(t, raw, r)
		return nil
	} else if s.isOwn {
		return nil // no Envoy asked for it
	}
	if s.earlier != nil { // the control plane answers, so what an earlier agent kept is of no use
		s.grace.Stop()
		s.earlier = nil
		s.keepIn(s.relay.newCache(s.node))
	}
	t := s.interest(r.Type)
	f := &flight{
		nonce: strconv.FormatUint(s.count, 10) + "." + r.Nonce, from: s.count, removed: r.Removed,
		batch: s.cache.Add(s.writer, raw, r),
	}
	for _, i := range r.Items {
		f.items = append(f.items, i.Versioned)
	}
	t.flights = append(t.flights, f)
	s.toDown = append(s.toDown, wire.WithNonce(m, f.nonce))
	s.relay.count(r, len(raw))
	s.relay.o.Handed(t.typ)
	return nil
}

func (s *session) interest(typ string) *interest {
	t := s.types[typ]
	if t == nil {
		t = newInterest(typ)
		s.types[typ] = t
	}
	return t
}

// ask handles a request of Envoy's.
func (s *session) ask(ctx context.Context, m wire.Message) error {
	r, err := wire.DecodeRequest(m[0])
	if err != nil || r.Type == "" {
		return status.Errorf(codes.InvalidArgument, "relay: the request cannot be read, or names no type: %v", err)
	}
	if s.relay.own.find(r.Type) != nil {
		return status.Errorf(codes.InvalidArgument, "relay: %s is for the agent alone", r.Type)
	}
	s.relay.note(func() { s.relay.counts.requests++ })
	if s.node == nil {
		if r.Node == nil {
			return status.Error(codes.InvalidArgument, "relay: the first request does not say who asks")
		}
		s.begin(ctx, r)
	}
	t := s.interest(r.Type)
	nonce, refused := s.answer(t, r)
	if !slices.Contains(s.order, t) {
		s.order = append(s.order, t)
		s.first(t, r)
		return nil
	}
	t.subscribe(r.Subscribe)
	gone := t.unsubscribe(r.Unsubscribe)
	s.cache.Drop(s.writer, t.typ, gone)
	if refused {
		s.reconnect(ctx)
	}
	switch {
	case !s.open:
		s.fromCache(t, r.Subscribe, false)
	case t.sentOn != s.count:
		s.sendFirst(t)
	case len(r.Subscribe)+len(r.Unsubscribe) > 0 || nonce != "":
		s.send(
			wire.Request{
				Type:        r.Type,
				Subscribe:   r.Subscribe,
				Unsubscribe: r.Unsubscribe,
				Nonce:       nonce,
				Failure:     r.Failure,
				Failed:      r.Failed && nonce != "",
			},
		)
	}
	return nil
}

// begin learns the Envoy's node, and decides which cache it is served from.
func (s *session) begin(ctx context.Context, r wire.Request) {
	s.node = slices.Clone(r.Node)
	s.relay.addSession(s)
	kept := s.relay.cacheFor(s.node)
	switch {
	case kept == nil:
		s.keepIn(s.relay.newCache(s.node))
	case kept.UpToDate() || len(r.Initial) > 0:
		s.attach(kept)
	default:
		s.earlier = kept
		s.grace.Reset(s.relay.o.Grace)
	}
	s.connect(ctx)
}

func (s *session) attach(c *cache.Cache) {
	s.keepIn(c)
	s.serve = true
	c.MarkUpToDate()
}

// keepIn makes the session write to a cache, and to no other one from now on.
func (s *session) keepIn(c *cache.Cache) { s.cache, s.writer = c, s.relay.take(c, s) }

// takeOver makes the session keep again what its Envoy holds, if a younger session did so and has ended: that of an Envoy that did
// not come up, for example.
func (s *session) takeOver(ctx context.Context) {
	if s.cache == nil || s.cache.IsWriter(s.writer) || !s.relay.isYoungest(s) {
		return
	}
	if c := s.relay.cacheFor(s.node); c != nil {
		s.attach(c)
	} else {
		s.keepIn(s.relay.newCache(s.node))
	}
	for _, t := range s.order {
		s.reconcile(t)
	}
	s.reconnect(ctx)
}

// useEarlier serves what an earlier agent kept, since the control plane does not answer.
func (s *session) useEarlier(ctx context.Context) {
	if s.earlier == nil {
		return
	}
	s.relay.o.Log.Warn("the control plane does not answer: the proxy starts with what it had last", "file", s.earlier.Path())
	s.attach(s.earlier)
	s.earlier = nil
	for _, t := range s.order {
		s.fromCache(t, slices.Sorted(maps.Keys(t.names)), true)
	}
	s.reconnect(ctx)
}

// first handles the first request of a type.
func (s *session) first(t *interest, r wire.Request) {
	t.begin(r)
	if len(r.Initial) > 0 {
		s.reconcile(t)
	} else if s.serve {
		s.fromCache(t, slices.Sorted(maps.Keys(t.names)), true)
	}
	s.sendFirst(t)
}

// reconcile makes the cache agree with Envoy. Resources that Envoy holds and the cache lacks are requested again, so that the cache
// becomes complete; those that Envoy does not hold are dropped.
func (s *session) reconcile(t *interest) {
	if s.cache == nil || !cache.Keeps(t.typ) {
		return
	}
	versions, _ := s.cache.Versions(t.typ)
	for _, v := range t.holds() {
		if versions[v.Name] != v.Version {
			t.known[v.Name] = ""
		}
		delete(versions, v.Name)
	}
	s.cache.Drop(s.writer, t.typ, slices.Sorted(maps.Keys(versions)))
}

// fromCache answers with the named resources from the cache, or with all of them if Envoy subscribes to all. If the control plane
// is away, the answer to a first request also says which names are missing, so that Envoy does not wait for them.
func (s *session) fromCache(t *interest, names []string, first bool) {
	versions, ok := s.cache.Versions(t.typ)
	if !ok || !first && len(names) == 0 {
		return
	}
	var missing []string
	if first && t.wildcard {
		names = slices.Sorted(maps.Keys(versions))
	} else if first && !s.open {
		missing = slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := versions[n]; return ok })
	}
	for sent := false; !sent && (first && t.wildcard || len(missing) > 0) || len(names) > 0; sent = true {
		bodies, items, took, err := s.cache.Read(t.typ, names)
		if err != nil {
			s.relay.o.Log.Error("the cache cannot be read", "error", err)
			return
		}
		names = names[took:]
		if len(items)+len(missing) == 0 && (sent || !t.wildcard) {
			continue
		}
		s.nonces++
		f := &flight{nonce: "c." + strconv.FormatUint(s.nonces, 10), items: items, removed: missing}
		t.flights = append(t.flights, f)
		s.toDown = append(s.toDown, wire.Message{wire.Response{Type: t.typ, Removed: missing}.Encode(bodies, f.nonce)})
		s.relay.countCached(t.typ, len(items))
		missing = nil
	}
}

// answer handles the part of a request that answers a response. It returns the nonce to pass on, if the upstream stream that gave
// it still exists. refused reports that Envoy refused something from the cache, so that the control plane must be asked for it.
func (s *session) answer(t *interest, r wire.Request) (nonce string, refused bool) {
	if r.Nonce == "" {
		return "", false
	}
	at := t.find(r.Nonce)
	if at < 0 {
		return "", false
	}
	from := t.flights[at].from
	if r.Failed {
		f := t.nack(at)
		s.cache.Abort(f.batch)
		if from == 0 {
			s.cache.Drop(s.writer, t.typ, namesOf(f.items))
			refused = true
		}
		s.relay.countRefused(t.typ)
	} else {
		for _, f := range t.ack(at) {
			s.cache.Commit(f.batch)
		}
		s.keepWhenComplete()
	}
	s.relay.o.Answered(t.typ)
	if from != s.count || !s.open {
		return "", refused
	}
	_, nonce, _ = strings.Cut(r.Nonce, ".")
	return nonce, refused
}

func namesOf(items []wire.Versioned) []string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = v.Name
	}
	return out
}

// lastType is the last wildcard that an Envoy asks for: before it has listeners it has not started.
const lastType = xdstype.ListenerURL

// keepWhenComplete makes a new cache the current one once it holds all that Envoy subscribes to.
func (s *session) keepWhenComplete() {
	if s.cache == nil || s.relay.isCurrent(s.cache) || s.types[lastType] == nil || !s.types[lastType].answered {
		return
	}
	for _, t := range s.order {
		if cache.Keeps(t.typ) && !t.settled() {
			return
		}
	}
	s.relay.makeCurrent(s)
}
