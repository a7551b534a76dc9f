package protocol

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// play is a random history of one mesh and one client: changes, deliveries in any interleaving, reconnects.
type play struct {
	t        testing.TB
	r        *rig
	c        *client
	delta    bool
	toC      []*wire.Response // on the way to the client
	input    []byte
	log      []string
	stacks   int
	refusing bool
	met      bool                            // clusters were sent on this stream
	seen     map[uint64]map[[2]string]string // what the proxy saw, by turn, type and name
}

func newPlay(t testing.TB, delta, refusing bool, input []byte) *play {
	p := &play{t: t, r: newRig(t, delta), c: newClient(t, delta), delta: delta, input: input}
	p.refusing = refusing
	if refusing {
		p.c.refuses = func(s spec) bool { return s.Version%5 == 4 }
	}
	return p
}

func (p *play) byte() int {
	if len(p.input) == 0 {
		return 0
	}
	b := p.input[0]
	p.input = p.input[1:]
	return int(b)
}

func (p *play) logf(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *play) run() {
	for len(p.input) > 0 && !p.t.Failed() {
		p.step()
		p.remember()
		p.checkLags()
		p.checkConcerns()
	}
	if !p.t.Failed() {
		p.settle()
		p.check()
	}
	if p.t.Failed() {
		for _, s := range p.r.m.order {
			p.t.Logf("%s queue=%v trials=%v flights=%d slots=%v quarantined=%v answerDue=%v unanswered=%v", xdstype.Short(s.typ),
				s.queue, s.trials, len(s.flight), s.slots, s.quarantined, s.answerDue, s.unanswered)
		}
		p.t.Logf("history:\n%s", strings.Join(p.log, "\n"))
	}
}

func (p *play) step() {
	switch op := p.byte(); {
	case op < 70:
		p.change(1 + p.byte()%4)
	case op < 130:
		p.toClient()
	case op < 190:
		p.toServer()
	case op < 235:
		p.emit()
	case op < 241:
		p.restack()
	case op < 245:
		p.empty()
	case op < 250 && !p.t.Failed():
		p.settle()
		p.check()
	case op < 253:
		p.reconnect()
	default:
		p.rawRequest()
	}
}

// rawRequest sends raw bytes of the input, of any kind, on the client's stream: they are refused, or accepted and answered, and the
// stream ends. The next stream reports what the client held.
func (p *play) rawRequest() {
	n := min(p.byte(), len(p.input))
	raw := string(p.input[:n])
	p.input = p.input[n:]
	if p.byte()%2 == 0 { // of a type that is served, so that more is looked at than its name
		raw += field(
			map[bool]protowire.Number{true: 2, false: 4}[p.delta],
			[]string{
				xdstype.ClusterURL, xdstype.EndpointURL, xdstype.ListenerURL, xdstype.RouteURL, xdstype.VirtualHostURL,
			}[p.byte()%5],
		)
	}
	r := decodedRaw(p.delta, raw)
	p.logf("a stranger says %q: %v", raw, r.Err)
	refused := r.Err
	if refused == nil {
		checkStrings(p.t, r)
		refused = p.r.receive(r)
	}
	if many := (*TooMany)(nil); errors.As(refused, &many) {
		refused = status.Error(codes.ResourceExhausted, many.Error())
	}
	if code := status.Code(refused); code != codes.OK && code != codes.InvalidArgument && code != codes.ResourceExhausted {
		p.t.Fatalf("refused with %v", refused)
	}
	if refused != nil && !utf8.ValidString(refused.Error()) {
		p.t.Fatalf("refused with %q", refused)
	}
	for range 8 {
		if refused != nil || p.r.next() == nil {
			break
		}
	}
	p.reconnect()
}

// decodedRaw decodes raw bytes as a stream does.
func decodedRaw(delta bool, raw string) *wire.Request {
	r := &wire.Request{Delta: delta, MaxNames: 200_000}
	if err := wire.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, r); err != nil {
		panic(err)
	}
	return r
}

// checkStrings looks for strings of a request that are not fit to be shown, or too long.
func checkStrings(t testing.TB, r *wire.Request) {
	t.Helper()
	all := append([]string{r.Type, r.Nonce, r.Detail}, append(r.Subscribe, r.Unsubscribe...)...)
	for _, k := range r.Initial {
		all = append(all, k.Name, k.Version)
	}
	for _, s := range all {
		if len(s) > 4<<10 || !utf8.ValidString(s) {
			t.Fatalf("accepted: %.60q of %d bytes", s, len(s))
		}
	}
}

var (
	clusterNames  = []string{"c0", "c1", "c2", "c3"}
	routeNames    = []string{"80", "90"}
	listenerNames = []string{"l0", "l1"}
	hostNames     = []string{"80/a", "80/b", "90/a", "90/b"}
	shelfKeys     = []library.ShelfKey{"low", "high"}
)

// change publishes a few edits in one turn.
func (p *play) change(n int) {
	var changes []library.Change
	line := ""
	for range n {
		s := p.spec()
		key := shelfKeys[p.byte()%5/4]
		c := s.On(key)
		switch kind := p.byte() % 8; {
		case kind == 0 && key == "high":
			c.Resource, c.Whiteout = nil, true
		case kind < 3:
			c.Resource = nil
		}
		line += fmt.Sprintf(" %s:%s %s %v %q", key, xdstype.Short(c.Type), c.Name, c.Whiteout, func() []byte {
			if c.Resource == nil {
				return nil
			}
			return c.Resource.Body()
		}())
		changes = append(changes, c)
	}
	p.r.publish(changes...)
	p.logf("turn %d%s", p.r.turn, line)
}

// spec returns a random resource. Versions differ by name, so that a body shows the resource that it belongs to.
func (p *play) spec() spec {
	pick := func(names []string) (string, uint64) {
		i := p.byte() % len(names)
		return names[i], uint64(i)
	}
	version := func(kind, i uint64) uint64 {
		return kind*1000 + i*100 + uint64(p.byte()%6)*5 + uint64(p.byte()%16/15)*4
	}
	needs := func() (out []string) {
		for i, b := 0, p.byte(); i < len(clusterNames); i++ {
			if b>>(2*i)&3 == 3 {
				out = append(out, clusterNames[i])
			}
		}
		return out
	}
	switch p.byte() % 6 {
	case 0, 1:
		name, i := pick(clusterNames)
		s := spec{Type: xdstype.ClusterURL, Name: name, Version: version(1, i)}
		if i < 3 {
			s.Load = name
		}
		return s
	case 2:
		name, i := pick(clusterNames[:3])
		return spec{Type: xdstype.EndpointURL, Name: name, Version: version(2, i)}
	case 3:
		name, i := pick(listenerNames)
		r, _ := pick(routeNames)
		return spec{Type: xdstype.ListenerURL, Name: name, Version: version(3, i), Route: r, Needs: needs()}
	case 4:
		name, i := pick(routeNames)
		return spec{Type: xdstype.RouteURL, Name: name, Version: version(4, i), VHDS: i == 0, Needs: needs()}
	}
	name, i := pick(hostNames)
	return spec{Type: xdstype.VirtualHostURL, Name: name, Version: version(5, i), Needs: needs()}
}

func (p *play) emit() {
	if len(p.toC) > 3 {
		return
	}
	if resp := p.r.next(); resp != nil {
		p.checkOrder(resp)
		p.toC = append(p.toC, resp)
		return
	}
	soundMachine(p.t, p.r.m)
	if clusters := p.r.m.subs[xdstype.ClusterURL]; clusters != nil && len(clusters.flight) > 0 {
		return // what waited for one of these clusters, which has gone meanwhile, waits for the answer all the same
	}
	for _, s := range p.r.m.order {
		s.blockedAt = 0 // looks again at all names that wait, as if something had happened that they may wait for
	}
	if resp := p.r.next(); resp != nil {
		p.t.Errorf("%s was held back", decodeResponse(p.t, p.delta, resp.Data))
	}
}

func (p *play) toClient() {
	if len(p.toC) > 0 {
		resp := p.toC[0]
		p.toC = p.toC[1:]
		g := p.c.take(resp)
		p.logf("client takes %s (nonce %s)", g, g.nonce)
	}
}

func (p *play) toServer() {
	if len(p.c.out) > 0 {
		req := p.c.out[0]
		p.c.out = p.c.out[1:]
		p.logf("server takes %s nonce=%q failed=%v sub=%v unsub=%v", xdstype.Short(req.Type), req.Nonce, req.Failed, req.Subscribe,
			req.Unsubscribe)
		if err := p.r.receive(req); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *play) restack() { p.restackWith(nil) }

// restackWith gives the proxy other stacks in the turn of some changes.
func (p *play) restackWith(changes []library.Change) {
	p.stacks++
	if p.stacks%2 == 1 {
		p.r.publishAndAttach(changes, "low", "high")
	} else {
		p.r.publishAndAttach(changes, "low")
	}
	p.logf("turn %d: stacks %d, %d changes", p.r.turn, p.stacks%2, len(changes))
}

// empty removes everything from a shelf, in the turn in which the proxy starts to see it in another place, or no longer sees it.
func (p *play) empty() {
	key := shelfKeys[p.byte()%2]
	var changes []library.Change
	for typ, names := range map[string][]string{
		xdstype.ClusterURL:     clusterNames,
		xdstype.EndpointURL:    clusterNames,
		xdstype.ListenerURL:    listenerNames,
		xdstype.RouteURL:       routeNames,
		xdstype.VirtualHostURL: hostNames,
	} {
		for _, name := range names {
			changes = append(changes, gone(key, typ, name))
		}
	}
	p.restackWith(changes)
}

func (p *play) reconnect() {
	p.logf("reconnect")
	p.toC, p.met = nil, false
	p.r.reconnect(p.delta)
	p.c.reconnect()
}

// settle delivers everything until nothing moves.
func (p *play) settle() {
	for range 100_000 {
		switch {
		case len(p.c.out) > 0:
			p.toServer()
		case len(p.toC) > 0:
			p.toClient()
		default:
			p.emit()
			if len(p.toC) == 0 && len(p.c.out) == 0 {
				return
			}
		}
	}
	p.t.Fatalf("never at rest:\n%s", strings.Join(p.log[len(p.log)-40:], "\n"))
}

func randomInput(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

func TestRandomHistories(t *testing.T) {
	for _, delta := range []bool{true, false} {
		for _, refusing := range []bool{false, true} {
			t.Run(fmt.Sprintf("delta=%v,refusing=%v", delta, refusing), func(t *testing.T) {
				for seed := range uint64(2000) {
					newPlay(t, delta, refusing, randomInput(seed, 400)).run()
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

// FuzzSubscriptions: whatever a client sends, raw bytes too, and in whatever order with changes of the mesh, it holds the mesh's
// resources once everything is delivered.
func FuzzSubscriptions(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(byte(seed), randomInput(seed, 300))
	}
	for i, raw := range []string{
		field(5, field(1, "c0")+field(2, "1")), field(3, "c1") + field(4, "c1"),
		field(6, "1") + field(7, field(2, "no")), field(3, "a\xffb"), "\x0a\x80",
	} {
		f.Add(byte(i), append(append([]byte{0, 3, 200, 254, byte(len(raw))}, raw...), 0, byte(i), 248))
	}
	f.Fuzz(func(t *testing.T, mode byte, input []byte) {
		if len(input) < 4000 {
			newPlay(t, mode&1 == 0, mode&2 == 0, input).run()
		}
	})
}
