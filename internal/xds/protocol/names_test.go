package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// namesTypes are the types of the histories of TestAnySubscriptions: of each way to be asked for and to be sent.
var namesTypes = []string{
	xdstype.ClusterURL, xdstype.EndpointURL, xdstype.SecretURL, xdstype.ExtensionURL, xdstype.NameTableURL, xdstype.PatchURL,
	xdstype.ListenerURL, xdstype.RouteURL,
}

var namesNames = []string{"a", "b", "c", "d", "e", "f"}

// anyClient is a client that subscribes in every way that the protocol's page allows, to one type.
type anyClient struct {
	typ            string
	delta          bool
	started        bool
	star, explicit bool
	names          map[string]bool
	held           map[string]spec
	missing        map[string]bool // the server has said that these do not exist
	versions       map[string]string
	nonce, version string
	inbox          []got
	outbox         []*wire.Request
}

// session is a random history of a mesh and of one client, with a ledger for each type.
type session struct {
	*rig
	delta    bool
	refusing bool
	rng      *rand.Rand
	clients  []*anyClient
	ledgers  map[string]*ledger
	log      []string
	nonces   map[string]bool
	more     map[string]*got // by type: the response before, if nothing has happened since
	taken    int             // responses that clients have taken
	pass     *slots.Pass     // of all audits
}

func newSession(t testing.TB, delta, refusing bool, seed uint64) *session {
	s := &session{rig: newRig(t, delta), pass: slots.NewPass(), delta: delta, refusing: refusing, rng: rand.New(rand.NewPCG(seed, 11))}
	for _, typ := range namesTypes {
		s.clients = append(s.clients, &anyClient{typ: typ, delta: delta, names: map[string]bool{}, held: map[string]spec{},
			missing: map[string]bool{}, versions: map[string]string{}})
	}
	s.attachSome()
	s.connect()
	return s
}

func (s *session) logf(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// attachSome gives the proxy other shelves, of each type its own.
func (s *session) attachSome() {
	at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
	for _, typ := range namesTypes {
		at.Stacks[typ] = [][]library.ShelfKey{{"low"}, {"low", "high"}, {"high"}, {"low", "high"}}[s.rng.IntN(4)]
	}
	s.turn++
	s.lib.Publish(s.turn, nil, library.Attach{Proxy: "p", To: at})
	s.logf("turn %d: stacks %v", s.turn, at.Stacks)
}

// connect starts a stream. The client reports what it holds, or forgets it.
func (s *session) connect() {
	s.reconnect(s.delta)
	one := spec{Type: namesTypes[s.rng.IntN(len(namesTypes))], Name: "a", Version: 1}
	s.m.limits.Bytes, s.m.limits.Window = (1+s.rng.IntN(5))*one.Resource().Size()-s.rng.IntN(2), 1+s.rng.IntN(4)
	s.ledgers, s.nonces, s.more = map[string]*ledger{}, map[string]bool{}, map[string]*got{}
	s.logf("connect: %d bytes, window %d", s.m.limits.Bytes, s.m.limits.Window)
	for _, c := range s.clients {
		s.ledgers[c.typ] = newLedger(s.t, s.delta, c.typ)
		wasStarted := c.started
		c.inbox, c.outbox, c.started, c.nonce, c.version, c.missing = nil, nil, false, "", "", map[string]bool{}
		for _, name := range sortedNames(c.held) {
			switch s.rng.IntN(6) {
			case 0:
				delete(c.held, name)
				delete(c.versions, name)
			case 1:
				c.versions[name] = []string{"of another server", library.FormatVersion(s.rng.Uint64())}[s.rng.IntN(2)]
			}
		}
		if wasStarted && s.rng.IntN(4) > 0 {
			s.start(c)
		}
	}
}

// start sends the first request of a type.
func (s *session) start(c *anyClient) {
	c.started = true
	if c.star && len(c.names) > 0 || xdstype.Referred(c.typ) {
		c.explicit = true
	}
	if !c.star && len(c.names) == 0 && !xdstype.Referred(c.typ) {
		c.star, c.explicit = true, false
	}
	if s.delta {
		add := sortedNames(c.names)
		if c.star && c.explicit {
			add = append(add, library.Wildcard)
		}
		s.post(c, &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: c.typ, ResourceNamesSubscribe: add, InitialResourceVersions: maps.Clone(c.versions),
		}, nil)
		return
	}
	s.post(c, nil, c.list(""))
}

func (s *session) post(c *anyClient, d *discoveryv3.DeltaDiscoveryRequest, r *discoveryv3.DiscoveryRequest) {
	if d != nil {
		c.outbox = append(c.outbox, encoded(s.t, true, d))
	} else {
		c.outbox = append(c.outbox, encoded(s.t, false, r))
	}
}

// list is a state-of-the-world request.
func (c *anyClient) list(refused string) *discoveryv3.DiscoveryRequest {
	names := sortedNames(c.names)
	if c.star && c.explicit {
		names = append(names, library.Wildcard)
	}
	return &discoveryv3.DiscoveryRequest{
		TypeUrl: c.typ, ResourceNames: names, ResponseNonce: c.nonce, VersionInfo: c.version, ErrorDetail: nackStatus(refused),
	}
}

// subscribe changes what a client is subscribed to.
func (s *session) subscribe(c *anyClient) {
	if !c.started {
		for _, name := range namesNames {
			if s.rng.IntN(3) == 0 {
				c.names[name] = true
			}
		}
		if s.rng.IntN(2) == 0 {
			c.star, c.explicit = true, true
		}
		s.start(c)
		return
	}
	d := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: c.typ}
	for range 1 + s.rng.IntN(3) {
		name := namesNames[s.rng.IntN(len(namesNames))]
		switch op := s.rng.IntN(8); {
		case op < 4:
			c.names[name] = true
			d.ResourceNamesSubscribe = append(d.ResourceNamesSubscribe, name)
		case op < 7:
			d.ResourceNamesUnsubscribe = append(d.ResourceNamesUnsubscribe, name)
		case slices.Contains(d.ResourceNamesUnsubscribe, library.Wildcard), !s.delta && s.busy(c):
		case !c.star:
			c.star = true
			d.ResourceNamesSubscribe = append(d.ResourceNamesSubscribe, library.Wildcard)
		case (c.explicit || len(d.ResourceNamesSubscribe) > 0) && !slices.Contains(d.ResourceNamesSubscribe, library.Wildcard):
			d.ResourceNamesUnsubscribe = append(d.ResourceNamesUnsubscribe, library.Wildcard)
		}
	}
	c.explicit = c.explicit || len(d.ResourceNamesSubscribe) > 0
	for _, name := range d.ResourceNamesUnsubscribe {
		if name == library.Wildcard {
			c.star = false
		}
		delete(c.names, name)
	}
	if !s.delta {
		c.explicit = c.explicit || len(c.names) > 0
		s.post(c, nil, c.list(""))
	} else if len(d.ResourceNamesSubscribe)+len(d.ResourceNamesUnsubscribe) > 0 {
		s.post(c, d, nil)
	}
	c.forget()
}

// busy reports whether messages of a type are on the way. In the state-of-the-world protocol a server cannot tell that a client left the
// wildcard and came back meanwhile.
func (s *session) busy(c *anyClient) bool { return len(s.ledgers[c.typ].flights)+len(c.outbox) > 0 }

// forget drops what the client is no longer subscribed to.
func (c *anyClient) forget() {
	for _, name := range namesNames {
		if !c.star && !c.names[name] {
			delete(c.held, name)
			delete(c.versions, name)
			delete(c.missing, name)
		}
	}
}

// take applies a response, or refuses it as a whole.
func (s *session) take(c *anyClient) {
	g := c.inbox[0]
	c.inbox = c.inbox[1:]
	s.taken++
	refused := ""
	for _, name := range g.names {
		if s.refuses(readSpec(g.bodies[name])) {
			refused = "refused"
		}
	}
	c.nonce = g.nonce
	s.logf("client takes %v, %s", g, refused)
	if refused == "" {
		c.apply(g)
	}
	if refused == "" && len(c.inbox) > 0 && s.rng.IntN(3) == 0 {
		return // the answer to the next response answers this one too
	}
	if s.delta {
		s.post(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: c.typ, ResponseNonce: g.nonce, ErrorDetail: nackStatus(refused)}, nil)
	} else {
		s.post(c, nil, c.list(refused))
	}
}

func (c *anyClient) apply(g got) {
	c.version = g.version
	if !c.delta && xdstype.Full(c.typ) {
		clear(c.held)
	}
	for _, name := range g.names {
		if c.star || c.names[name] {
			c.held[name], c.versions[name] = readSpec(g.bodies[name]), g.versions[name]
			delete(c.missing, name)
		}
	}
	for _, name := range g.removed {
		delete(c.held, name)
		delete(c.versions, name)
		c.missing[name] = true
	}
}

func (s *session) refuses(r spec) bool { return s.refusing && r.Version%7 == 6 }

// change publishes a few edits in one turn.
func (s *session) change() {
	var changes []library.Change
	line := ""
	for range 1 + s.rng.IntN(5) {
		typ, name := namesTypes[s.rng.IntN(len(namesTypes))], namesNames[s.rng.IntN(len(namesNames))]
		c := spec{Type: typ, Name: name, Version: s.rng.Uint64N(14)}.On([]library.ShelfKey{"low", "high"}[s.rng.IntN(2)])
		switch s.rng.IntN(6) {
		case 0:
			c.Resource, c.Whiteout = nil, true
		case 1, 2:
			c.Resource = nil
		}
		line += fmt.Sprintf(" %s:%s %s %v", c.Shelf, xdstype.Short(typ), name, c.Resource != nil)
		changes = append(changes, c)
	}
	s.publish(changes...)
	s.logf("turn %d%s", s.turn, line)
}

// toServer has the server take one request, and compares the events that it reports with the ledger.
func (s *session) toServer(c *anyClient) {
	r := c.outbox[0]
	c.outbox = c.outbox[1:]
	clear(s.more)
	s.logf("server takes %s nonce=%q failed=%v sub=%v unsub=%v initial=%v", xdstype.Short(r.Type), r.Nonce, r.Failed, r.Subscribe,
		r.Unsubscribe, r.Initial)
	want := s.ledgers[c.typ].take(r, func(name, version string) bool {
		res := lookup(s.view(), c.typ, name)
		return res != nil && library.FormatVersion(res.Version()) == version
	})
	if err := s.receive(r); err != nil {
		s.t.Fatal(err)
	}
	var have []Event
	for _, e := range s.m.Events() {
		e.Turn, e.Turns = 0, nil // TestHistory in internal/admin has them
		if !s.delta && e.Kind == EventAck && xdstype.Full(c.typ) {
			e.Resources = len(s.ledgers[c.typ].last.names) // a state counts what changed alone
			continue
		}
		if e.Kind != EventReject {
			have = append(have, e)
		}
	}
	if !s.delta && xdstype.Full(c.typ) {
		want = slices.DeleteFunc(want, func(e Event) bool { return e.Kind == EventAck })
	}
	for _, events := range [][]Event{have, want} {
		slices.SortFunc(events, func(a, b Event) int { return cmp.Or(int(a.Kind-b.Kind), a.Resources-b.Resources) })
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		s.t.Errorf("the server reports %+v, not %+v", have, want)
	}
	s.names(c)
}

// names compares the machine's state of a type with the ledger.
func (s *session) names(c *anyClient) {
	sub, l, total := s.m.subs[c.typ], s.ledgers[c.typ], 0
	for _, other := range s.ledgers {
		total += len(other.names)
	}
	if sub.names != len(l.names) || s.m.named != total || sub.wildcard != l.star {
		s.t.Errorf("%d names of %s, %d of all, wildcard %v; not %d, %d, %v", sub.names, xdstype.Short(c.typ), s.m.named, sub.wildcard,
			len(l.names), total, l.star)
	}
}

// emit has the server send one response, and holds it against the ledger.
func (s *session) emit() bool {
	v := s.view()
	resp := s.next()
	if resp == nil {
		s.nothingHeldBack()
		return false
	}
	g := decodeResponse(s.t, s.delta, resp.Data)
	s.logf("send %v, nonce %s", g, g.nonce)
	l := s.ledgers[g.typ]
	if resp.Type != g.typ || resp.Resources != len(g.names) || s.delta && resp.Removed != len(g.removed) || resp.Turn != v.Turn ||
		s.nonces[g.nonce] {
		s.t.Errorf("the response says of itself %+v: %+v", resp, g)
	}
	s.nonces[g.nonce] = true
	if s.delta && g.version != fmt.Sprint(v.Turn) {
		s.t.Errorf("turn %d is sent as %s", v.Turn, g.version)
	}
	s.size(l, v, g)
	l.judge(g, v.Turn)
	if n := len(l.flights); n > s.m.limits.Window || l.full() && n > 1 {
		s.t.Errorf("%d responses of %s at once", n, xdstype.Short(g.typ))
	}
	if st := s.m.Status()[g.typ]; st.Sent != (Mark{Nonce: g.nonce, Turn: v.Turn}) {
		s.t.Errorf("sent is %+v", st.Sent)
	}
	for _, c := range s.clients {
		if c.typ == g.typ {
			c.inbox = append(c.inbox, g)
		}
	}
	return true
}

// size checks that a response is as large as the limit allows, and not larger.
func (s *session) size(l *ledger, v *library.View, g got) {
	if l.full() {
		return
	}
	of := func(g got, n int) (sum int) {
		for _, name := range g.names[:n] {
			sum += lookup(v, g.typ, name).Size()
		}
		return sum
	}
	if of(g, len(g.names)) > s.m.limits.Bytes && len(g.names) > 1 {
		s.t.Errorf("%d bytes are sent, the limit is %d", of(g, len(g.names)), s.m.limits.Bytes)
	}
	before := s.more[g.typ]
	if !s.refusing && before != nil && len(g.names) > 0 && of(*before, len(before.names))+of(g, 1) <= s.m.limits.Bytes {
		s.t.Errorf("%v could have gone with %v", g, *before)
	}
	s.more[g.typ] = &g
}

// nothingHeldBack looks again at all names that wait, as if something had happened that they may wait for: there is nothing to send.
func (s *session) nothingHeldBack() {
	for _, sub := range s.m.order {
		sub.blockedAt = 0
	}
	if resp := s.next(); resp != nil {
		s.t.Errorf("%v was held back", decodeResponse(s.t, s.delta, resp.Data))
	}
	for typ, st := range s.m.Status() {
		l := s.ledgers[typ]
		if xdstype.RankOf(typ) == xdstype.OtherRank && !s.refusing && st.Pending > 0 && len(l.flights) < s.m.window(s.m.subs[typ]) {
			s.t.Errorf("%d names of %s wait, with %d responses on the way", st.Pending, xdstype.Short(typ), len(l.flights))
		}
		if !s.refusing && s.delta && s.m.holds(typ) != len(l.versions) {
			s.t.Errorf("the client holds %d resources of %s, not %d", len(l.versions), xdstype.Short(typ), s.m.holds(typ))
		}
	}
}

// step does one thing at random.
func (s *session) step() {
	c := s.clients[s.rng.IntN(len(s.clients))]
	switch op := s.rng.IntN(100); {
	case op < 12:
		clear(s.more)
		s.change()
	case op < 14:
		clear(s.more)
		s.attachSome()
	case op < 22:
		s.subscribe(c)
	case op < 50:
		s.emit()
	case op < 51:
		s.connect()
	case op < 53:
		s.settle()
		s.check()
	default:
		for _, c := range s.clients {
			if len(c.inbox) > 0 && s.rng.IntN(2) == 0 {
				s.take(c)
			}
			if len(c.outbox) > 0 && s.rng.IntN(2) == 0 {
				s.toServer(c)
			}
		}
	}
	s.sound()
}

// settle delivers everything until nothing moves.
func (s *session) settle() {
	for range 10_000 {
		if s.t.Failed() {
			return
		}
		moved := s.emit()
		for _, c := range s.clients {
			for len(c.inbox) > 0 {
				s.take(c)
				moved = true
			}
			for len(c.outbox) > 0 {
				s.toServer(c)
				moved = true
			}
		}
		if !moved {
			return
		}
	}
	s.t.Fatal("never at rest")
}

// check compares what the client holds at rest with what it is subscribed to.
func (s *session) check() {
	s.logf("check")
	v := s.view()
	status := s.m.Status()
	for _, c := range s.clients {
		if !c.started {
			continue
		}
		st := status[c.typ]
		if st.Sent != st.Acked && !s.refusing || st.Pending > 0 && !s.refusing {
			s.t.Errorf("at rest, %s is %+v", xdstype.Short(c.typ), st)
		}
		for _, name := range namesNames {
			s.checkName(v, c, name)
		}
	}
	if !s.m.Synced() && (s.delta || !s.refusing) {
		s.t.Error("at rest, and not synced")
	}
	var found library.Audited
	if s.viewer.Read(func(v *library.View) { s.m.Audit(v, s.pass, &found) }); found.Count() > 0 {
		s.t.Errorf("an audit finds %+v", found)
	}
}

func (s *session) checkName(v *library.View, c *anyClient, name string) {
	r := lookup(v, c.typ, name)
	have, held := c.held[name]
	subscribed := c.star || c.names[name]
	switch {
	case !subscribed && held:
		s.t.Errorf("the client holds %s %s, which it is not subscribed to", xdstype.Short(c.typ), name)
	case !subscribed:
	case r == nil && c.version == "" && !s.delta: // nothing that it names exists, and no response that it accepts says so
	case r == nil && c.typ == xdstype.ClusterURL && !s.delta && s.refusing:
		// The cluster may be used by members of a refused route configuration.
	case r == nil && held && (s.delta || xdstype.Full(c.typ)):
		s.t.Errorf("the client still holds %s %s", xdstype.Short(c.typ), name)
	case r == nil && s.delta && c.names[name] && !c.missing[name]:
		s.t.Errorf("the client does not know that there is no %s %s", xdstype.Short(c.typ), name)
	case r == nil || s.refuses(readSpec(r.Body())):
	case !held || string(have.Body()) != strings.TrimSpace(string(r.Body())):
		s.t.Errorf("the client holds %s %s %v, not %s", xdstype.Short(c.typ), name, have, r.Body())
	}
}

// sound compares the machine's counters with what they count.
func (s *session) sound() { soundMachine(s.t, s.m) }

// TestAnySubscriptions: whatever a client subscribes to, by name and by wildcard, and whenever it reconnects, it holds what it is
// subscribed to, and is sent nothing else and nothing twice.
func TestAnySubscriptions(t *testing.T) {
	for _, delta := range []bool{true, false} {
		for _, refusing := range []bool{false, true} {
			t.Run(fmt.Sprintf("delta=%v,refusing=%v", delta, refusing), func(t *testing.T) {
				for seed := range uint64(150) {
					s := newSession(t, delta, refusing, seed)
					for i := 0; i < 300 && !t.Failed(); i++ {
						s.step()
					}
					if !t.Failed() {
						s.settle()
						s.check()
					}
					if t.Failed() {
						t.Fatalf("seed %d:\n%s", seed, strings.Join(s.log, "\n"))
					}
				}
			})
		}
	}
}
