package protocol

import (
	"slices"
	"strconv"
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

func (r *rig) lags(turn uint64) (out []Lag) {
	r.viewer.Read(func(v *library.View) { out = r.m.Lags(v, turn) })
	return out
}

func (p *play) lags(turn uint64) []Lag { return p.r.lags(turn) }

// rememberedTurns is how many turns back a history asks about.
const rememberedTurns = 6

// remember writes down what the proxy sees at the last turn.
func (p *play) remember() {
	if p.seen == nil {
		p.seen = map[uint64]map[[2]string]string{}
	}
	if p.seen[p.r.turn] != nil {
		return
	}
	now, v := map[[2]string]string{}, p.r.view()
	for typ, names := range map[string][]string{
		xdstype.ClusterURL: clusterNames, xdstype.ListenerURL: listenerNames, xdstype.VirtualHostURL: hostNames,
		xdstype.RouteURL: routeNames, xdstype.EndpointURL: clusterNames,
	} {
		for _, name := range names {
			if r := lookup(v, typ, name); r != nil {
				now[[2]string{typ, name}] = string(r.Body())
			}
		}
	}
	p.seen[p.r.turn] = now
	delete(p.seen, p.r.turn-rememberedTurns)
}

// checkLags: if the client is said to lack nothing up to a turn, then each resource that it holds is that turn's or a later one's.
func (p *play) checkLags() {
	for turn := p.r.turn; turn > 0 && turn+rememberedTurns > p.r.turn; turn-- {
		if p.seen[turn] == nil || len(p.lags(turn)) > 0 {
			continue
		}
		for _, typ := range allTypes {
			onTheWay := slices.ContainsFunc(p.c.out, func(r *wire.Request) bool { return r.Type == typ })
			if p.r.m.subs[typ] == nil || onTheWay { // what the client asks for now is not known to the server
				continue
			}
			for _, name := range p.universe(typ) {
				p.checkReached(turn, typ, name)
			}
		}
	}
}

// checkConcerns: a turn that changed a resource that the client wants concerns it.
func (p *play) checkConcerns() {
	for turn := p.r.turn; turn > 0 && turn+rememberedTurns > p.r.turn; turn-- {
		before, after := p.seen[turn-1], p.seen[turn]
		if before == nil || after == nil || p.r.concerns(turn) {
			continue
		}
		for _, typ := range allTypes {
			s := p.r.m.subs[typ]
			if s == nil || s.began >= turn {
				continue
			}
			for _, name := range p.universe(typ) {
				at := [2]string{typ, name}
				if before[at] != after[at] && (s.wildcard || p.r.slot(typ, name).Is(named|has|uncertain)) {
					p.t.Errorf("turn %d of %d changed the %s %s, and is said not to concern the client",
						turn, p.r.turn, xdstype.Short(typ), name)
				}
			}
		}
	}
}

func (r *rig) concerns(turn uint64, types ...string) (is bool) {
	r.viewer.Read(func(v *library.View) {
		is = r.m.Concerns(v, turn, func(typ string) bool { return len(types) == 0 || slices.Contains(types, typ) })
	})
	return is
}

// TestConcerns: a turn concerns a client if it changed something that the client wants, or the shelves that it sees.
func TestConcerns(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("a", 1), load("a", 1))
	k.ask(xdstype.ClusterURL, "*")
	k.ask(xdstype.EndpointURL, "a")
	k.expect("Cluster a", "ClusterLoadAssignment a")
	first := k.turn
	k.put(load("b", 1)) // nobody asks for it
	second := k.turn
	k.put(load("a", 2))
	third := k.turn
	for turn, want := range map[uint64]bool{first: false, third: true} { // the client came after the first turn
		if got := k.concerns(turn); got != want {
			t.Errorf("turn %d concerns the client: %t, want %t", turn, got, want)
		}
	}
	if k.concerns(second, xdstype.ClusterURL) {
		t.Error("a later change of another type counts for a turn that changed clusters")
	}
	k.attach(library.ShelfKey("other"))
	if !k.concerns(second, xdstype.ClusterURL) {
		t.Error("other shelves do not count")
	}
}

func (p *play) checkReached(turn uint64, typ, name string) {
	at := [2]string{typ, name}
	have, held := p.c.held[typ][name]
	for later := turn; later <= p.r.turn; later++ {
		want, has := p.seen[later][at]
		if has == held && (!has || want == string(have.Body())) {
			return
		}
	}
	if sub := p.r.m.subs[typ]; !sub.wildcard && !p.r.slot(typ, name).Is(named) {
		return // its request is on the way
	}
	if _, refused := p.r.m.subs[typ].quarantined[p.r.view().Enter(name)]; refused {
		return // since before the turn, which did not change it
	}
	if held && !p.delta && !xdstype.Full(typ) || held && p.keptFor(typ, name) {
		return // it cannot be taken away, or not yet
	}
	p.t.Errorf("the client is said to have all up to turn %d of %d, but its %s %s (%v) is none since then: %q", turn, p.r.turn,
		xdstype.Short(typ), name, held, have.Body())
}

// TestLags: a change is not sent, not acknowledged, refused, or there, and each turn is asked about for itself.
func TestLags(t *testing.T) {
	k := newTalk(t, true)
	k.put(cluster("a", 1), cluster("b", 1))
	k.ask(xdstype.ClusterURL, "*")
	k.expect("Cluster a b")
	k.ack(xdstype.ClusterURL)
	first := k.turn
	want := func(turn uint64, lags ...Lag) {
		t.Helper()
		if got := k.lags(turn); !slices.Equal(got, lags) {
			t.Fatalf("turn %d: %+v, want %+v", turn, got, lags)
		}
	}
	want(first)
	k.put(cluster("a", 2))
	second := k.turn
	lag := Lag{Type: xdstype.ClusterURL, State: NotSent, Names: 1, Since: second, Name: "a"}
	want(second, lag)
	want(first)
	k.expect("Cluster a")
	lag.State = NotAcked
	want(second, lag)
	k.nack(xdstype.ClusterURL, "no good")
	k.expect()
	lag.State, lag.Detail = Refused, "no good"
	want(second, lag)
	want(first)
	k.put(cluster("b", 2)) // a change that has nothing to do with what was refused
	k.expect("Cluster b")
	k.ack(xdstype.ClusterURL)
	want(k.turn)
	want(second, lag)
	k.put(load("a", 1)) // the client asked for none
	want(k.turn)
}

// BenchmarkLags asks one of many clients that have everything, of 5,000 clusters.
func BenchmarkLags(b *testing.B) {
	r := newRig(b, true)
	all := make([]spec, 5000)
	for i := range all {
		all[i] = cluster("c"+strconv.Itoa(i), 1)
	}
	r.put(all...)
	c := newClient(b, true)
	c.start(xdstype.ClusterURL)
	for len(c.out) > 0 {
		if err := r.receive(c.out[0]); err != nil {
			b.Fatal(err)
		}
		c.out = c.out[1:]
		for resp := r.next(); resp != nil; resp = r.next() {
			c.take(resp)
		}
	}
	if lags := r.lags(r.turn); len(lags) > 0 {
		b.Fatalf("the client lacks %+v", lags)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.lags(r.turn)
	}
}
