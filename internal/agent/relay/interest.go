package relay

import (
	"fairway/internal/agent/relay/cache"
	"fairway/internal/agent/relay/wire"
	"maps"
	"slices"
)

// absent replaces the version of a name that the control plane said does not exist. No version has a zero byte.
const absent = "\x00"

// interest is what an Envoy subscribes to of one type on one stream, and holds of it. Only its session's goroutine uses it.
type interest struct {
	typ string
	// wildcard: all resources. legacy: no name was ever subscribed to, which is how a wildcard began before it had a name (xDS
	// protocol, "How the client specifies what resources to return").
	wildcard, legacy bool
	names            map[string]struct{}
	known            map[string]string // name → version that Envoy holds; "" where that is not known; or absent
	flights          []*flight         // responses that Envoy has not answered, oldest first
	sentOn           uint64            // number of the upstream stream that has a request for the type
	answered         bool              // Envoy has accepted a response
}

// flight is a response on its way to Envoy.
type flight struct {
	nonce   string // that Envoy sees
	from    uint64 // number of the upstream stream; 0: the cache
	items   []wire.Versioned
	removed []string
	batch   cache.BatchID // in the cache
}

func newInterest(typ string) *interest {
	return &interest{typ: typ, legacy: true, names: map[string]struct{}{}, known: map[string]string{}}
}

func (t *interest) wants(name string) bool {
	_, named := t.names[name]
	return named || t.wildcard
}

// begin applies the first request of a stream.
func (t *interest) begin(r wire.Request) {
	t.wildcard = len(r.Subscribe) == 0
	t.subscribe(r.Subscribe)
	for _, v := range r.Initial {
		t.known[v.Name] = v.Version
	}
	t.unsubscribe(r.Unsubscribe)
}

// subscribe adds names. Envoy may have forgotten what it held of a name that it subscribes to again.
func (t *interest) subscribe(names []string) {
	for _, name := range names {
		t.legacy = false
		if name == "*" {
			t.wildcard = true
			continue
		}
		t.names[name] = struct{}{}
		delete(t.known, name)
	}
}

// unsubscribe removes names, and returns those that Envoy does not want any more.
func (t *interest) unsubscribe(names []string) (gone []string) {
	for _, name := range names {
		if name == "*" {
			t.wildcard = false
			gone = append(gone, t.unnamed()...)
			continue
		}
		delete(t.names, name)
		if !t.wildcard {
			gone = append(gone, name)
		}
	}
	for _, name := range gone {
		delete(t.known, name)
	}
	return gone
}

// unnamed returns the names that only the wildcard selects.
func (t *interest) unnamed() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(t.known)) {
		if _, named := t.names[name]; !named {
			out = append(out, name)
		}
	}
	return out
}

// find returns the place of the flight that a nonce answers, or -1.
func (t *interest) find(nonce string) int {
	return slices.IndexFunc(t.flights, func(f *flight) bool { return f.nonce == nonce })
}

// ack notes that Envoy accepted the flight at a place, and those before it, and returns them.
func (t *interest) ack(at int) []*flight {
	taken := t.flights[:at+1]
	t.flights = slices.Clone(t.flights[at+1:])
	for _, f := range taken {
		for _, v := range f.items {
			if t.wants(v.Name) {
				t.known[v.Name] = v.Version
			}
		}
		for _, name := range f.removed {
			delete(t.known, name)
			if _, named := t.names[name]; named {
				t.known[name] = absent
			}
		}
	}
	t.answered = true
	return taken
}

// nack notes that Envoy refused the flight at a place. Envoy may have applied a part of it, so it is not known what it holds.
func (t *interest) nack(at int) *flight {
	f := t.flights[at]
	t.flights = slices.Delete(t.flights, at, at+1)
	for _, v := range f.items {
		if t.wants(v.Name) {
			t.known[v.Name] = ""
		}
	}
	return f
}

// firstRequest returns the first request about the type on an upstream stream; false if Envoy subscribes to nothing of the type.
func (t *interest) firstRequest() (wire.Request, bool) {
	r := wire.Request{Type: t.typ}
	if !t.wildcard && len(t.names) == 0 {
		return r, false // without names it would be a wildcard
	}
	if t.wildcard && !t.legacy {
		r.Subscribe = append(r.Subscribe, "*")
	}
	r.Subscribe = append(r.Subscribe, slices.Sorted(maps.Keys(t.names))...)
	r.Initial = t.holds()
	return r, true
}

// holds returns what Envoy will have once it has read all that is on its way to it. A resource that it may still refuse has no
// version, so that it is sent again: a cluster that was not acknowledged may wait for endpoints that come only after the cluster.
// Resources from the cache were acknowledged before.
func (t *interest) holds() []wire.Versioned {
	now := maps.Clone(t.known)
	for _, f := range t.flights {
		for _, v := range f.items {
			if f.from != 0 {
				v.Version = ""
			}
			now[v.Name] = v.Version
		}
		for _, name := range f.removed {
			delete(now, name)
		}
	}
	var out []wire.Versioned
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if version := now[name]; version != absent && t.wants(name) {
			out = append(out, wire.Versioned{Name: name, Version: version})
		}
	}
	return out
}

// settled reports whether Envoy has an answer to everything that it subscribes to.
func (t *interest) settled() bool {
	if len(t.flights) > 0 || t.wildcard && !t.answered {
		return false
	}
	for name := range t.names {
		if _, ok := t.known[name]; !ok {
			return false
		}
	}
	return true
}
