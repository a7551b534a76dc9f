package xds

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// play is a random history of one mesh and one client: changes, deliveries in any interleaving, reconnects.
type play struct {
	t        testing.TB
	r        *rig
	c        *client
	delta    bool
	toC      []*response // on the way to the client
	bodies   map[string]string
	input    []byte
	log      []string
	stacks   int
	refusing bool
	met      bool // clusters were sent on this stream
}

func newPlay(t testing.TB, delta, refusing bool, input []byte) *play {
	p := &play{t: t, r: newRig(t, delta), c: newClient(t, delta), delta: delta, input: input}
	p.refusing = refusing
	if refusing {
		p.c.refuses = func(s spec) bool { return s.version%5 == 4 }
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
	}
	if !p.t.Failed() {
		p.settle()
		p.check()
	}
	if p.t.Failed() {
		for _, s := range p.r.m.order {
			p.t.Logf("%s queue=%v trials=%v flights=%d slots=%v jail=%v owes=%v probe=%v", shortType(s.typ), s.queue, s.trials, len(s.flight), s.slots, s.jail, s.owes, s.probe)
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
	case op < 245:
		p.restack()
	case op < 250 && !p.t.Failed():
		p.settle()
		p.check()
	default:
		p.reconnect()
	}
}

var (
	clusterNames  = []string{"c0", "c1", "c2", "c3"}
	routeNames    = []string{"80", "90"}
	listenerNames = []string{"l0", "l1"}
	hostNames     = []string{"80/a", "80/b", "90/a", "90/b"}
	shelfKeys     = []ShelfKey{"low", "high"}
)

// change publishes a few edits in one turn.
func (p *play) change(n int) {
	var changes []Change
	line := ""
	for range n {
		s := p.spec()
		key := shelfKeys[p.byte()%5/4]
		c := s.on(key)
		switch kind := p.byte() % 8; {
		case kind == 0 && key == "high":
			c.Resource, c.Whiteout = nil, true
		case kind < 3:
			c.Resource = nil
		}
		line += fmt.Sprintf(" %s:%s %s %v %q", key, shortType(c.Type), c.Name, c.Whiteout, func() []byte {
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

// spec is a random resource. Versions are made distinct by name so that a body tells whose it is.
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
		s := spec{typ: ClusterType, name: name, version: version(1, i)}
		if i < 3 {
			s.load = name
		}
		return s
	case 2:
		name, i := pick(clusterNames[:3])
		return spec{typ: EndpointType, name: name, version: version(2, i)}
	case 3:
		name, i := pick(listenerNames)
		r, _ := pick(routeNames)
		return spec{typ: ListenerType, name: name, version: version(3, i), route: r, needs: needs()}
	case 4:
		name, i := pick(routeNames)
		return spec{typ: RouteType, name: name, version: version(4, i), vhds: i == 0, needs: needs()}
	}
	name, i := pick(hostNames)
	return spec{typ: VirtualHostType, name: name, version: version(5, i), needs: needs()}
}

func (p *play) emit() {
	if len(p.toC) > 3 {
		return
	}
	if resp := p.r.next(); resp != nil {
		p.checkOrder(resp)
		p.toC = append(p.toC, resp)
	}
}

// checkOrder holds a response against make before break: at the moment of sending, given all that is on the way.
func (p *play) checkOrder(resp *response) {
	g := decodeResponse(p.t, p.delta, resp.data)
	p.logf("send %s (nonce %s)", g, g.nonce)
	v := p.r.view()
	clusters := p.r.m.subs[ClusterType]
	if clusters == nil {
		return
	}
	switch g.typ {
	case ListenerType, RouteType, VirtualHostType:
		flights := p.r.m.subs[g.typ].flight
		for _, it := range flights[len(flights)-1].items {
			name, r := it.name, it.sent
			if r == nil {
				continue
			}
			for _, need := range r.opts.Needs {
				if c := v.resolve(ClusterType, need); c != nil && !p.refusable(c) {
					if _, ok := p.c.held[ClusterType][need]; !ok && !p.everRefused(need) {
						p.t.Errorf("%s %s was sent before its cluster %s", shortType(g.typ), name, need)
					}
				}
			}
		}
	case ClusterType:
		first := !p.met
		p.met = true
		if first && !p.delta {
			return // nobody can know what a reconnecting client of this protocol holds
		}
		if !p.delta && p.refusing {
			return // a client that took parts of a response loses them by the next one that has to leave them out
		}
		for name := range p.c.held[ClusterType] {
			if p.removes(g, name) {
				p.checkUnused(v, name)
			}
		}
	}
}

func (p *play) removes(g got, cluster string) bool {
	if !p.delta {
		for _, n := range g.names {
			if n == cluster {
				return false
			}
		}
		return true
	}
	for _, n := range g.removed {
		if n == cluster {
			return true
		}
	}
	return false
}

// checkUnused looks for a route at the client that needs a cluster which is being removed, though the view's version
// of that route does not need it.
func (p *play) checkUnused(v *view, cluster string) {
	for _, typ := range []string{ListenerType, RouteType, VirtualHostType} {
		for name, s := range p.c.held[typ] {
			now := v.resolve(typ, name)
			if !contains(s.needs, cluster) || p.r.m.subs[typ] == nil {
				continue
			}
			if typ != ListenerType && !p.c.names[RouteType][ownerOrSelf(typ, name)] {
				continue // about to be forgotten by the client itself
			}
			if !p.delta && (p.r.m.subs[typ].slots[name].res == nil || now == nil && !fullState(typ)) {
				continue // it is not known to the server, or could not be taken away: the protocol has no way to say so
			}
			if now != nil && (contains(now.opts.Needs, cluster) || p.refusable(now)) {
				continue
			}
			p.t.Errorf("cluster %s was removed under %s %s", cluster, shortType(typ), name)
		}
	}
}

func ownerOrSelf(typ, name string) string {
	if typ == VirtualHostType {
		return owner(name)
	}
	return name
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (p *play) refusable(r *Resource) bool { return p.c.refuses(readSpec(r.Body())) }

// everRefused tells whether a cluster is, or was, one that the client refuses.
func (p *play) everRefused(name string) bool {
	_, jailed := p.r.m.subs[ClusterType].jail[name]
	return jailed
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
		p.logf("server takes %s nonce=%q failed=%v sub=%v unsub=%v", shortType(req.typ), req.nonce, req.failed, req.subscribe, req.unsubscribe)
		if err := p.r.receive(req); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *play) restack() {
	p.stacks++
	if p.stacks%2 == 1 {
		p.r.attach("low", "high")
	} else {
		p.r.attach("low")
	}
	p.logf("turn %d: stacks %d", p.r.turn, p.stacks%2)
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

// check compares what the client holds with what its stacks resolve to.
func (p *play) check() {
	if !p.r.m.synced() {
		p.t.Errorf("at rest, but not synced")
	}
	p.logf("check")
	v := p.r.view()
	for _, typ := range allTypes {
		sub := p.r.m.subs[typ]
		if sub == nil {
			continue
		}
		for _, name := range p.universe(typ) {
			p.checkName(v, typ, name)
		}
	}
	for name := range p.c.warming {
		r := v.resolve(EndpointType, name)
		if r != nil && p.refusable(r) {
			continue
		}
		if !p.delta && r == nil {
			continue // "The SotW protocol variants do not provide any explicit mechanism"
		}
		p.t.Errorf("cluster %s waits for its load assignment", name)
	}
}

func (p *play) checkName(v *view, typ, name string) {
	r := v.resolve(typ, name)
	have, held := p.c.held[typ][name]
	switch {
	case r == nil:
		if held && (p.delta || fullState(typ)) && !p.clingsTo(typ, name) {
			p.t.Errorf("the client still holds %s %s", shortType(typ), name)
		}
	case p.refusable(r):
	case !held:
		p.t.Errorf("the client lacks %s %s", shortType(typ), name)
	case have.version != readSpec(r.Body()).version || strings.Join(have.needs, ",") != strings.Join(r.opts.Needs, ","):
		p.t.Errorf("the client holds %s %s %q, not %q", shortType(typ), name, have.body(), r.Body())
	}
}

// clingsTo tells whether a removed cluster is kept for something whose new version the client refused.
func (p *play) clingsTo(typ, name string) bool {
	return typ == ClusterType && p.r.m.clung(name)
}

// universe is the names of a type that the client is subscribed to.
func (p *play) universe(typ string) (out []string) {
	switch typ {
	case ClusterType:
		return clusterNames
	case ListenerType:
		return listenerNames
	case VirtualHostType:
		for _, name := range hostNames {
			if r, ok := p.c.held[RouteType][owner(name)]; ok && r.vhds {
				out = append(out, name)
			}
		}
		return out
	}
	return sortedNames(p.c.names[typ])
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

func FuzzSubscriptions(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(byte(seed), randomInput(seed, 300))
	}
	f.Fuzz(func(t *testing.T, mode byte, input []byte) {
		if len(input) < 4000 {
			newPlay(t, mode&1 == 0, mode&2 == 0, input).run()
		}
	})
}
