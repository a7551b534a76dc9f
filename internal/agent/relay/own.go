package relay

import (
	"bytes"
	"context"
	"errors"
	"fairway/internal/agent/relay/cache"
	"fairway/internal/agent/relay/wire"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// Subscription is what the agent itself requests from the control plane. It travels on the upstream stream of the youngest Envoy,
// or on one of its own while there is no Envoy; Envoys never see it, and must not subscribe to the same type.
type Subscription struct {
	Type  string   // type URL
	Names []string // of the resources; none: all there are
	// Take is called with each change: first, if an earlier agent kept something for the type, with that, even if it is an empty set;
	// then with each response of the control plane; its first one may be empty. Calls come one at a time, in order, each resource once
	// until it changes. An error refuses the update: the control plane gets the error, and nothing of the update counts as held, so Take
	// has to accept all of it or nothing. It must return quickly, keep no byte of a body, and not call the relay.
	Take func(Update) error
	// Keep returns the part of a body that may be on disk, for the next agent; it must not change the body. nil: all of it.
	Keep func(body []byte) []byte
}

// Update holds the changes of a subscription's resources.
type Update struct {
	Changed []Resource
	Removed []string // names; some may never have been there
	Kept    bool     // it comes from disk: the control plane has not answered yet
}

// Resource is one resource of an Update.
type Resource struct {
	Name, Version string
	Body          []byte // the encoded message; it lasts as long as the call
}

// Report is a message from the agent to the control plane: a request of a type of its own that gets no resources. Only the last
// report of each type counts; it is sent at once, and again on each new stream to the control plane.
type Report struct {
	Type    string           // type URL
	Names   []string         // resource_names_subscribe
	Failure *statuspb.Status // error_detail; nil: none
}

// own holds the agent's own subscriptions and reports. It outlives sessions; one of them carries it at a time.
type own struct {
	mu      sync.Mutex
	types   []*ownType // in order of subscription
	reports []*ownReport
	session *session // that sent the subscriptions last; only responses on its upstream stream count
	cache   *cache.Cache
}

type ownType struct {
	Subscription
	known map[string]string // name → version taken
}

type ownReport struct {
	typ    string
	raw    wire.Request
	serial uint64 // rises with each report
}

// ownCache is the cache's name in its folder.
const ownCache = "agent.cache"

// Subscribe adds a subscription. It has to be called before Run.
func (r *Relay) Subscribe(s Subscription) {
	r.own.types = append(r.own.types, &ownType{s, map[string]string{}})
}

// Report sends a report to the control plane, in place of an earlier one of the same type.
func (r *Relay) Report(report Report) error {
	raw := wire.Request{Type: report.Type, Subscribe: slices.Clone(report.Names)}
	if report.Failure != nil {
		var err error
		if raw.Failure, err = proto.Marshal(report.Failure); err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		raw.Failed = true
	}
	r.own.send(raw)
	r.wakeSessions()
	return nil
}

func (o *own) send(raw wire.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.reports {
		if known.typ == raw.Type {
			known.raw = raw
			known.serial++
			return
		}
	}
	o.reports = append(o.reports, &ownReport{raw.Type, raw, 1})
}

// isEmpty reports whether there are neither subscriptions nor reports.
func (o *own) isEmpty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.types)+len(o.reports) == 0
}

// find returns a type of the agent's own, or nil. Types exist before sessions do, so no lock is needed.
func (o *own) find(typ string) *ownType {
	at := slices.IndexFunc(o.types, func(t *ownType) bool { return t.Type == typ })
	if at < 0 {
		return nil
	}
	return o.types[at]
}

// openOwn gives the subscriptions what an earlier agent kept for the same node.
func (r *Relay) openOwn() {
	if r.o.CacheDir == "" || r.o.Node == nil || len(r.own.types) == 0 {
		return
	}
	path, node := filepath.Join(r.o.CacheDir, ownCache), wire.HashNode(r.o.Node())
	_ = os.Remove(path + ".tidy") // of an agent that was killed
	c, err := cache.Open(r.o.Files, path, r.o.CacheLimit, r.o.Log)
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist):
	case errors.Is(err, cache.ErrNotCache):
		r.o.Log.Warn("what an earlier agent kept for itself is of no use", "error", err)
	default: // it may be readable another time
		r.o.Log.Error("what an earlier agent kept for itself cannot be read: it stays as it is, and nothing is added to it", "error", err)
		return
	}
	if !c.UsableBy(node) {
		c.Close()
		if c, err = cache.Create(r.o.Files, path, node, r.o.CacheLimit, r.o.Log); err != nil {
			r.o.Log.Error("the agent keeps nothing for itself: one that starts while the control plane is away will have to wait for it",
				"error", err)
			return
		}
	}
	r.own.cache = c
	for _, t := range r.own.types {
		r.own.loadKept(t)
	}
}

// loadKept gives a type the resources that are kept for it.
func (o *own) loadKept(t *ownType) {
	versions, ok := o.cache.Versions(t.Type)
	if !ok {
		return
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(versions)), func(name string) bool { return !t.wants(name) })
	for first := true; first || len(names) > 0; first = false { // an empty set is given too
		bodies, items, took, err := o.cache.Read(t.Type, names)
		if err != nil {
			return // the next read reports it
		}
		names = names[took:]
		u := Update{Kept: true}
		for i, v := range items {
			u.Changed = append(u.Changed, Resource{v.Name, v.Version, wire.Body(bodies[i])})
		}
		if (len(items) > 0 || len(versions) == 0) && t.Take(u) == nil {
			t.note(u)
		}
	}
}

func (t *ownType) wants(name string) bool { return len(t.Names) == 0 || slices.Contains(t.Names, name) }

// note remembers the resources that were taken.
func (t *ownType) note(u Update) {
	for _, name := range u.Removed {
		delete(t.known, name)
	}
	for _, x := range u.Changed {
		t.known[x.Name] = x.Version
	}
}

// firstRequest returns the first request about the type on a stream. A subscription without names is to all resources.
func (t *ownType) firstRequest() wire.Request {
	r := wire.Request{Type: t.Type, Subscribe: t.Names}
	for _, name := range slices.Sorted(maps.Keys(t.known)) {
		r.Initial = append(r.Initial, wire.Versioned{Name: name, Version: t.known[name]})
	}
	return r
}

// ownSent notes the messages that were sent for the agent itself on a session's upstream stream.
type ownSent struct {
	stream     uint64            // where it was sent
	subscribed bool              // for the subscriptions, once
	reports    map[string]uint64 // type → serial
}

// sendOwn sends the agent's own subscriptions and reports upstream, if the session is the one that speaks for the agent.
func (s *session) sendOwn(ctx context.Context) {
	if !s.open {
		return // sendOwn is called again when it opens
	}
	if s.ownSent.stream != s.count {
		s.ownSent = ownSent{stream: s.count, reports: map[string]uint64{}}
	}
	if s.sendOwnRequests() {
		s.reconnect(ctx)
	}
}

// sendOwnRequests sends what has not been sent on this stream yet, and reports whether another stream is needed: only the first
// request of a type can say what the agent holds, and since then resources may have come on the stream of another session.
func (s *session) sendOwnRequests() (stale bool) {
	o := &s.relay.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if !s.relay.speaksForAgent(s) {
		return false
	}
	if s.ownSent.subscribed && o.session != s {
		return true
	}
	if !s.ownSent.subscribed && len(o.types) > 0 {
		s.ownSent.subscribed, o.session = true, s
		for _, t := range o.types {
			s.send(t.firstRequest())
		}
	}
	for _, r := range o.reports {
		if s.ownSent.reports[r.typ] != r.serial {
			s.ownSent.reports[r.typ] = r.serial
			s.send(r.raw)
		}
	}
	return false
}

// takeOwn gives a response to the agent itself. A response on a stream that another one has replaced is only acknowledged: the
// other one brings it too.
func (s *session) takeOwn(t *ownType, raw []byte, r wire.Response) {
	answer := wire.Request{Type: r.Type, Nonce: r.Nonce}
	if err := s.relay.own.take(s, t, raw, r); err != nil {
		s.relay.countRefused(r.Type)
		s.relay.o.Log.Error("the agent refuses what the control plane sends", "type", r.Type, "error", err)
		answer.Failed = true
		// one number, one string: it cannot fail
		answer.Failure, _ = proto.Marshal(&statuspb.Status{Code: int32(codes.InvalidArgument), Message: err.Error()})
	}
	s.send(answer)
}

// take passes a response to the handler.
func (o *own) take(s *session, t *ownType, raw []byte, r wire.Response) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != s {
		return nil
	}
	u := Update{Removed: r.Removed}
	for _, i := range r.Items {
		u.Changed = append(u.Changed, Resource{i.Name, i.Version, wire.Body(raw[i.At : i.At+i.Size])})
	}
	disk, said := t.forDisk(raw, r)
	kept := o.cache.Add(0, disk, said)
	if err := t.Take(u); err != nil {
		o.cache.Abort(kept)
		return err
	}
	o.cache.Commit(kept)
	t.note(u)
	return nil
}

// forDisk returns a response as it may be on disk. A resource that is there only in part has no version, so that it is sent again.
func (t *ownType) forDisk(raw []byte, r wire.Response) ([]byte, wire.Response) {
	if t.Keep == nil {
		return raw, r
	}
	parts := map[int][]byte{} // by the position of the Resource
	for _, i := range r.Items {
		body := wire.Body(raw[i.At : i.At+i.Size])
		if part := t.Keep(body); !bytes.Equal(part, body) {
			parts[i.At] = wire.EncodeResource(t.Type, wire.Versioned{Name: i.Name}, part)
		}
	}
	if len(parts) == 0 {
		return raw, r
	}
	return wire.ReplaceResources(raw, parts)
}
