package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/xds/library"
	"fairway/internal/xdstype"
)

// LiveQuestion asks for an object, or for a turn if Turn is set.
type LiveQuestion struct {
	Turn       uint64
	Key        config.Key
	Generation int64                      // at least this one; 0: whichever is in force
	Hash       uint64                     // the content's, as config.Object has it without a creation time; 0: whichever is in force
	Proxies    func(library.ProxyID) bool // proxies to ask; nil: all
}

// TurnFilter selects turns. The zero value selects none.
type TurnFilter struct {
	Turn   uint64                // this one; 0: any
	After  uint64                // later ones
	Object func(config.Key) bool // those in which such an object changed; nil: any
	Stream uint64                // those that this stream was sent, as far as that is remembered; 0: any
	Most   int                   // the latest of them
}

// mostTurns is how many turns one answer shows, and shownTurns how many if the request says nothing.
const (
	mostTurns  = 1000
	shownTurns = 20
)

// livez shows whether a version of an object, or a turn, is in force on all proxies that the viewer may see.
func (p *Pages) livez(w http.ResponseWriter, r *http.Request) {
	q, err := p.liveQuestion(viewerOf(r), r.URL.Query())
	if err != nil {
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	if q.Turn == 0 && !viewerOf(r).sees(q.Key.Namespace) {
		p.refuse(w, r, &refusal{http.StatusForbidden, refusedNamespace, "objects of namespace " +
			printable.Text(q.Key.Namespace, printable.Short) + " are not shown to namespace " + viewerOf(r).namespace})
		return
	}
	writeJSON(w, p.Live(q))
}

func (p *Pages) liveQuestion(v viewer, query url.Values) (q LiveQuestion, err error) {
	if q.Turn, err = number(query, "turn", 10); err != nil {
		return q, err
	}
	generation, err := number(query, "generation", 10)
	if err != nil {
		return q, err
	}
	if q.Hash, err = number(query, "hash", 16); err != nil {
		return q, err
	}
	q.Generation = int64(min(generation, 1<<62))
	if q.Turn == 0 {
		if q.Key, err = objectKey(query); err != nil {
			return q, err
		}
	}
	if name := query.Get("proxyID"); name != "" {
		s, err := p.find(v, name)
		if err != nil {
			return q, err
		}
		q.Proxies = func(id library.ProxyID) bool { return id == s.Proxy }
	} else {
		q.Proxies = p.seenBy(v)
	}
	return q, nil
}

// seenBy selects the proxies that a viewer sees; nil: all.
func (p *Pages) seenBy(v viewer) func(library.ProxyID) bool {
	if v.all {
		return nil
	}
	return func(id library.ProxyID) bool { return v.sees(p.namespace(id)) }
}

// number reads a number of a query; 0: there is none.
func number(query url.Values, name string, base int) (uint64, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s=%s: want a positive number", name, printable.Text(text, printable.Short))
	}
	return n, nil
}

// objectKey reads the object that a query names.
func objectKey(query url.Values) (config.Key, error) {
	kind, known := config.KindCalled(query.Get("kind"), config.WrittenKinds())
	switch {
	case known && (kind == config.MeshConfig || kind == config.MeshNetworks):
		return config.Key{Kind: kind}, nil
	case !known:
		return config.Key{}, fmt.Errorf("there is no kind %q; write one as VirtualService",
			printable.Text(query.Get("kind"), printable.Short))
	case query.Get("name") == "":
		return config.Key{}, fmt.Errorf("say which %s: ?name=", kind)
	}
	return config.Key{Kind: kind, Namespace: query.Get("namespace"), Name: query.Get("name")}, nil
}

// historyz shows the last turns, oldest first. To a viewer of one namespace it shows those in which objects of the namespace changed, and
// of these only what concerns the namespace.
func (p *Pages) historyz(w http.ResponseWriter, r *http.Request) {
	v := viewerOf(r)
	f, err := p.turnFilter(v, r.URL.Query())
	if err != nil {
		writeError(w, err.Error(), http.StatusBadRequest)
		return
	}
	turns := p.History(f)
	if !v.all {
		for i := range turns {
			p.narrow(v, &turns[i])
		}
	}
	writeJSON(w, turns)
}

func (p *Pages) turnFilter(v viewer, query url.Values) (f TurnFilter, err error) {
	if f.Turn, err = number(query, "turn", 10); err != nil {
		return f, err
	}
	if f.After, err = number(query, "after", 10); err != nil {
		return f, err
	}
	most, err := number(query, "most", 10)
	if err != nil {
		return f, err
	}
	if f.Most = int(min(most, mostTurns)); most == 0 {
		f.Most = shownTurns
	}
	var only config.Key
	if query.Get("kind") != "" {
		if only, err = objectKey(query); err != nil {
			return f, err
		}
	}
	if only != (config.Key{}) || !v.all {
		f.Object = func(k config.Key) bool { return v.sees(k.Namespace) && (only == config.Key{} || k == only) }
	}
	if name := query.Get("proxyID"); name != "" {
		s, err := p.find(v, name)
		if err != nil {
			return f, err
		}
		f.Stream = s.Connection
	}
	return f, nil
}

// narrow leaves of a turn what a viewer of one namespace may see.
func (p *Pages) narrow(v viewer, t *page.Turn) {
	t.Inputs, t.Tables = nil, nil
	t.Objects = slices.DeleteFunc(t.Objects, func(o page.TurnObject) bool { return !v.sees(o.Namespace) })
	t.Refusals = slices.DeleteFunc(t.Refusals, func(r page.TurnRefusal) bool { return !v.sees(p.namespace(library.ProxyID(r.Proxy))) })
	t.ObjectCount, t.RefusalCount = len(t.Objects), len(t.Refusals)
}

// behind returns what each stream that a viewer sees lacks of the last turn, by stream.
func (p *Pages) behind(v viewer) map[uint64][]page.ProxyLag {
	last := p.Streams.LastTurn()
	streams := p.Streams.Lags(last, p.seenBy(v)).Behind
	out := make(map[uint64][]page.ProxyLag, len(streams))
	for _, s := range streams {
		for _, l := range s.Lags {
			lag := page.ProxyLag{Type: xdstype.Label(l.Type), State: l.State.String(), Resources: l.Names}
			if l.Since > 0 {
				lag.Turns = last + 1 - l.Since
			}
			if at, known := p.Streams.PublishedAt(l.Since); known {
				at = at.UTC()
				lag.Since = &at
			}
			out[s.Connection] = append(out[s.Connection], lag)
		}
	}
	return out
}
