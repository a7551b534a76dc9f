package protocol

import (
	"maps"
	"slices"
	"testing"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
	"fairway/internal/xdstype"
)

// ledger is what a server can know of a client's state of one type, written from the protocol's page and the messages on the wire
// alone. It judges each response: everything in it must be subscribed to, and new to the client or asked for.
type ledger struct {
	t     testing.TB
	typ   string
	delta bool

	legacy, started, star bool
	names                 map[string]bool   // subscribed to by name
	versions              map[string]string // that the client was sent last, or reported
	absent                map[string]bool   // the client was told that these do not exist
	due                   map[string]bool   // asked for and not answered
	doubt                 map[string]bool   // in a refused response: the client may hold another version
	refused               bool              // the client refused something on this stream
	mayBeEmpty            bool              // an answer is due even if there is nothing in it
	flights               []letter
	last                  letter
}

// letter is a response on its way.
type letter struct {
	nonce          string
	turn           uint64
	version        string
	names, removed []string
	sent           map[string]string
}

func newLedger(t testing.TB, delta bool, typ string) *ledger {
	return &ledger{
		t: t, typ: typ, delta: delta, legacy: !xdstype.Referred(typ), names: map[string]bool{}, versions: map[string]string{},
		absent: map[string]bool{}, due: map[string]bool{}, doubt: map[string]bool{},
	}
}

func (l *ledger) full() bool { return !l.delta && xdstype.Full(l.typ) }

// take notes a request that the server takes, and returns the events that it must report. current reports whether a version is the one
// that the client is to have.
func (l *ledger) take(r *wire.Request, current func(name, version string) bool) []Event {
	events := l.answered(r)
	first, fresh := !l.started, !l.started || r.Nonce == l.last.nonce
	if first {
		l.started, l.star = true, l.legacy && len(r.Subscribe) == 0
		l.mayBeEmpty = l.star && len(r.Initial) == 0
	}
	switch star := slices.Contains(r.Subscribe, library.Wildcard); {
	case l.delta:
		l.takeDelta(r, first, star, current)
	case l.legacy && len(r.Subscribe) == 0:
	default:
		l.takeState(r, fresh, star)
	}
	return events
}

func (l *ledger) takeDelta(r *wire.Request, first, star bool, current func(name, version string) bool) {
	l.legacy = l.legacy && len(r.Subscribe) == 0
	if star {
		l.mayBeEmpty = l.mayBeEmpty || !l.star && len(r.Initial) == 0
		l.star = true
	}
	for _, name := range r.Subscribe {
		if name != library.Wildcard {
			l.names[name] = true
			l.due[name] = true
		}
	}
	if first {
		for _, k := range r.Initial {
			if l.star || l.names[k.Name] {
				l.versions[k.Name], l.doubt[k.Name] = k.Version, !current(k.Name, k.Version)
				delete(l.due, k.Name)
			}
		}
	}
	for _, name := range r.Unsubscribe {
		switch {
		case name == library.Wildcard:
			l.leaveStar()
		case !l.names[name]:
		case l.star:
			delete(l.names, name)
			l.due[name] = true
		default:
			l.giveUp(name)
		}
	}
}

func (l *ledger) takeState(r *wire.Request, fresh, star bool) {
	for _, name := range sortedNames(l.names) {
		switch {
		case slices.Contains(r.Subscribe, name):
			continue
		case star:
			delete(l.names, name)
		default:
			l.giveUp(name)
		}
		l.mayBeEmpty = l.mayBeEmpty || l.full()
	}
	if !fresh {
		return
	}
	l.legacy = false
	for _, name := range r.Subscribe {
		if name != library.Wildcard && !l.names[name] {
			l.names[name], l.due[name] = true, true
		}
	}
	switch {
	case star && !l.star:
		l.star, l.mayBeEmpty = true, true
	case !star && l.star:
		l.leaveStar()
	}
}

// leaveStar ends the wildcard: the client forgets everything that it did not name.
func (l *ledger) leaveStar() {
	if !l.star || l.delta && l.legacy {
		return
	}
	l.star, l.mayBeEmpty = false, false
	for _, known := range []map[string]bool{l.due, l.doubt, l.absent} {
		maps.DeleteFunc(known, func(name string, _ bool) bool { return !l.names[name] })
	}
	maps.DeleteFunc(l.versions, func(name, _ string) bool { return !l.names[name] })
}

func (l *ledger) giveUp(name string) {
	for _, known := range []map[string]bool{l.names, l.due, l.doubt, l.absent} {
		delete(known, name)
	}
	delete(l.versions, name)
}

// answered notes which responses a request answers: all up to the one with its nonce.
func (l *ledger) answered(r *wire.Request) (events []Event) {
	at := slices.IndexFunc(l.flights, func(f letter) bool { return f.nonce == r.Nonce })
	for i := 0; i <= at; i++ {
		if f := l.flights[i]; i < at || !r.Failed {
			l.accepted(f, l.flights[i+1:])
			events = append(events, Event{Kind: EventAck, Type: l.typ, Resources: len(f.names) + len(f.removed)})
			continue
		}
		for _, name := range slices.Concat(l.flights[i].names, l.flights[i].removed) {
			l.doubt[name] = l.doubt[name] || !later(l.flights[i+1:], name)
		}
		l.refused = true
		events = append(events, Event{Kind: EventNack, Type: l.typ, Detail: r.Detail})
	}
	l.flights = l.flights[at+1:]
	return events
}

// accepted notes that the client took a response. It may hold what it gave up and asked for again while that was on the way.
func (l *ledger) accepted(f letter, after []letter) {
	for name, version := range f.sent {
		if _, known := l.versions[name]; !known && l.names[name] && !l.absent[name] && !later(after, name) {
			l.versions[name], l.doubt[name] = version, true
		}
	}
}

// later reports whether a later response on the way has the name too.
func later(flights []letter, name string) bool {
	return slices.ContainsFunc(flights, func(f letter) bool { return slices.Contains(f.names, name) || slices.Contains(f.removed, name) })
}

// judge checks a response when it is sent.
func (l *ledger) judge(g got, turn uint64) {
	f := letter{nonce: g.nonce, turn: turn, version: g.version, names: g.names, removed: g.removed, sent: map[string]string{}}
	if len(g.names)+len(g.removed) == 0 && !l.mayBeEmpty && !(l.full() && len(l.due)+len(l.versions)+len(l.doubt) > 0) &&
		l.typ != xdstype.ClusterURL {
		l.t.Errorf("an empty response of %s that no client waits for", xdstype.Short(l.typ))
	}
	if l.full() && g.version == l.last.version && !l.mayBeEmpty && !l.refused && len(l.due) == 0 {
		l.t.Errorf("the same state of %s again: %v", xdstype.Short(l.typ), g)
	}
	for _, name := range g.names {
		version := g.versions[name]
		if !l.delta {
			version = string(g.bodies[name])
		}
		held, known := l.versions[name]
		switch {
		case !l.star && !l.names[name]:
			l.t.Errorf("%s was sent, which nobody asked for: %v", name, g)
		case known && held == version && !l.due[name] && !l.doubt[name] && !l.full():
			l.t.Errorf("%s was sent, which the client holds: %v", name, g)
		}
		f.sent[name] = version
	}
	for _, name := range g.removed {
		if _, known := l.versions[name]; !known && !l.due[name] && !l.doubt[name] {
			l.t.Errorf("%s was removed, which the client does not hold: %v", name, g)
		}
	}
	if l.full() {
		clear(l.versions)
		maps.DeleteFunc(l.due, func(name string, _ bool) bool { return l.names[name] && slices.Contains(g.names, name) })
	}
	l.note(f)
}

// note records that a response was sent.
func (l *ledger) note(f letter) {
	for name, version := range f.sent {
		l.versions[name] = version
		for _, known := range []map[string]bool{l.absent, l.due, l.doubt} {
			delete(known, name)
		}
	}
	for _, name := range f.removed {
		delete(l.versions, name)
		delete(l.due, name)
		delete(l.doubt, name)
		if l.names[name] {
			l.absent[name] = true
		}
	}
	l.mayBeEmpty = false
	l.flights, l.last = append(l.flights, f), f
}
