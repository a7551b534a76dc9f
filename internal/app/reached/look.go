package reached

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/xds"
	"fairway/internal/xds/protocol"
	"fairway/internal/xdstype"
)

// Bounds of one look.
const (
	mostTurns   = 256 // turns that are judged; later ones wait for the next look
	mostHolders = 64  // streams that are asked whether a turn concerns them; if more lack something, all of them count
	mostRefused = 8   // turns that are asked for refusals, while some proxy refuses something
	mostName    = 80  // bytes of a proxy's name
	mostWhat    = 120 // bytes of what a proxy lacks
)

// verdict is what the streams say of a turn.
type verdict struct {
	outcome Outcome // Live; Late: some streams lack it; Refused; Unknown: not known yet
	count   Count
}

// holder is a stream that lacks something, or does not use it yet.
type holder struct {
	xds.ProxyLag
	lag   protocol.Lag // the oldest; zero: it only warms
	since uint64       // the oldest turn that it lacks
}

// look takes note of the turns that proxies have acknowledged.
func (t *Tracker) look(streams Streams, turns Turns) {
	now := t.now()
	asked := t.turnsToJudge(turns, now)
	verdicts := t.judge(streams, turns, asked)
	t.mu.Lock()
	moved := t.settle(verdicts, now)
	for k, at := range t.here {
		if now.Sub(at) >= silence {
			delete(t.here, k)
			moved = append(moved, k)
		}
	}
	t.mu.Unlock()
	for _, k := range moved {
		t.changed(k)
	}
}

// turnsToJudge returns turns of pending objects that streams see, in order. Those without a known outcome come first.
func (t *Tracker) turnsToJudge(turns Turns, now time.Time) []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := map[uint64]bool{} // by turn: the outcome of some object is not known yet
	for _, v := range t.pending {
		fresh[v.turn] = fresh[v.turn] || v.outcome == Unknown
	}
	maps.DeleteFunc(t.holders, func(turn uint64, _ map[uint64]bool) bool {
		_, pending := fresh[turn]
		return !pending
	})
	var out, known []uint64
	for _, turn := range slices.Sorted(maps.Keys(fresh)) {
		switch {
		case !turns.Published(turn) || turn == t.from && now.Before(t.settled):
		case fresh[turn]:
			out = append(out, turn)
		default:
			known = append(known, turn)
		}
	}
	out = out[:min(len(out), mostTurns)]
	if more := min(len(known), mostTurns-len(out)); more > 0 {
		for i := range more {
			out = append(out, known[(t.judged+i)%len(known)])
		}
		t.judged = (t.judged + more) % len(known)
	}
	slices.Sort(out)
	return out
}

// judge asks the streams about turns, which rise.
func (t *Tracker) judge(streams Streams, turns Turns, asked []uint64) map[uint64]verdict {
	out := map[uint64]verdict{}
	if len(asked) == 0 {
		return out
	}
	found := streams.Lags(max(streams.LastTurn(), asked[len(asked)-1]), nil)
	all := holdersOf(found.Behind)
	var done []uint64 // turns that no stream lacks
	for _, turn := range asked {
		v := verdict{outcome: Live, count: Count{Proxies: found.Asked}}
		if turns.Warms(turn) {
			v.count.Silent = found.Silent
		}
		if list := t.holding(streams, turns, turn, all); len(list) > 0 {
			v = verdict{Late, countOf(streams, list, found.Asked)}
		} else {
			done = append(done, turn)
		}
		out[turn] = v
	}
	t.refusals(streams, done, out)
	return out
}

// holdersOf returns the streams that lack something that they had in an older version, and those that warm. A stream that has just begun
// lacks no turn: it is sent the newest version of everything.
func holdersOf(behind []xds.ProxyLag) (out []holder) {
	for _, p := range behind {
		h := holder{ProxyLag: p}
		for _, l := range p.Lags {
			if l.Since > 0 && l.State != protocol.Refused && (h.since == 0 || l.Since < h.since) {
				h.lag, h.since = l, l.Since
			}
		}
		if h.since > 0 || !p.Warming.None() && !p.Unplaced {
			out = append(out, h)
		}
	}
	return out
}

// holding returns the streams that keep a turn from being everywhere. Whether it concerns them is asked soon after the turn, once.
func (t *Tracker) holding(streams Streams, turns Turns, turn uint64, all []holder) (out []holder) {
	for _, h := range all {
		if h.since <= turn {
			out = append(out, h)
		}
	}
	if len(out) == 0 || len(out) > mostHolders {
		return out
	}
	known := t.holders[turn]
	if known == nil {
		known = map[uint64]bool{}
		t.holders[turn] = known
	}
	var ask []uint64
	for _, h := range out {
		if _, is := known[h.Connection]; !is && len(known) < 2*mostHolders {
			known[h.Connection] = false
			ask = append(ask, h.Connection)
		}
	}
	for _, id := range streams.Concerned(turn, func(typ string) bool { return turns.Changed(turn, typ) }, ask) {
		known[id] = true
	}
	return slices.DeleteFunc(out, func(h holder) bool {
		concerned, is := known[h.Connection]
		return is && !concerned
	})
}

// countOf counts the streams that lack a turn, and describes one: one that has not acknowledged it, if there is one.
func countOf(streams Streams, list []holder, asked int) Count {
	out := Count{Proxies: asked, Without: len(list)}
	for _, h := range list {
		if h.since == 0 {
			out.Warming++
		}
	}
	// Since 0 comes last: that one only warms.
	first := slices.MinFunc(list, func(a, b holder) int { return cmp.Compare(a.since-1, b.since-1) })
	out.First = nameOfProxy(first.ProxyLag)
	if first.since == 0 {
		out.Since = first.Warms.UTC()
		out.What = "its agent has not asked it since the last acknowledgement"
		if n := first.Warming.Listeners + first.Warming.Clusters; n > 0 {
			out.What = fmt.Sprintf("%d listeners and %d clusters warm", first.Warming.Listeners, first.Warming.Clusters)
		}
		return out
	}
	if at, known := streams.PublishedAt(first.since); known {
		out.Since = at.UTC()
	}
	out.What = printable.Text(fmt.Sprintf("%s (%s %s)", first.lag.State, xdstype.Label(first.lag.Type), first.lag.Name), mostWhat)
	return out
}

func nameOfProxy(p xds.ProxyLag) string {
	return printable.Text(mesh.ProxyID(p.Proxy).Node(), mostName)
}

// refusals notes which of the turns brought a resource that some proxy refuses. If there are many turns, some are not asked about, and not
// known yet.
func (t *Tracker) refusals(streams Streams, turns []uint64, out map[uint64]verdict) {
	if len(streams.Refusing()) == 0 {
		return
	}
	again := t.refused()
	slices.SortStableFunc(turns, func(a, b uint64) int { // those first that were not refused at the last look
		switch {
		case again[a] == again[b]:
			return 0
		case again[a]:
			return 1
		}
		return -1
	})
	for i, turn := range turns {
		if i >= mostRefused {
			out[turn] = verdict{}
			continue
		}
		found := streams.Lags(turn, nil)
		count := Count{Proxies: found.Asked}
		for _, p := range found.Behind {
			at := slices.IndexFunc(p.Lags, func(l protocol.Lag) bool { return l.State == protocol.Refused })
			if at < 0 {
				continue
			}
			if count.Without++; count.First == "" {
				count.First, count.What = nameOfProxy(p), printable.Text(p.Lags[at].Detail, mostWhat)
			}
		}
		if count.Without > 0 {
			out[turn] = verdict{Refused, count}
		}
	}
}

// refused returns the turns of objects that some proxy refuses.
func (t *Tracker) refused() map[uint64]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[uint64]bool{}
	for _, v := range t.pending {
		if v.outcome == Refused {
			out[v.turn] = true
		}
	}
	return out
}

// settle applies verdicts to the pending objects, and returns those with another outcome. mu is held.
func (t *Tracker) settle(verdicts map[uint64]verdict, now time.Time) (moved []config.Key) {
	for k, v := range t.pending {
		is, judged := verdicts[v.turn]
		since := v.since
		if v.turn == t.from {
			since = t.settled
		}
		switch {
		case !judged || is.outcome == Unknown || is.outcome == Late && now.Sub(since) < late:
			continue
		case is.outcome <= v.outcome && is.outcome != Live:
			continue
		case is.outcome == Live:
			t.reached(k, v, is.count, now)
		default:
			v.outcome, v.count = is.outcome, is.count
		}
		moved = append(moved, k)
	}
	return moved
}

// reached notes that a version is live here. mu is held.
func (t *Tracker) reached(k config.Key, v *version, count Count, now time.Time) {
	delete(t.pending, k)
	t.here[k] = now
	if len(t.recent) == mostMentioned {
		t.recent = slices.Delete(t.recent, 0, 1)
	}
	t.recent = append(t.recent, mention{Object: nameOf(k), Generation: v.generation, Outcome: Live, Count: count})
}
