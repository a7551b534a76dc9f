package api

import (
	"encoding/json"
	"fairway/internal/source/api/book"
	"net"
	"net/http"
	"time"
)

// line is one of a watch.
type line struct {
	Type     string          `json:"type"` // put, delete, mark, gap
	Revision uint64          `json:"revision"`
	Service  json.RawMessage `json:"service,omitempty"`
	Object   *object         `json:"object,omitempty"`
}

// thing names a service that is gone.
type thing struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func lineOf(e *book.Entry) line {
	out := line{Type: "put", Revision: e.Revision}
	i := itemOf(e)
	out.Service, out.Object = i.Service, i.Object
	if e.Body == nil {
		if out.Type = "delete"; e.Key.Kind == "" {
			out.Service = encode(thing{e.Key.Namespace, e.Key.Name})
		}
	}
	return out
}

// Times of a watch.
const (
	markEach  = 15 * time.Second // without a change
	writeTime = 30 * time.Second // how long a client may take to read what is written
)

// mostOfOne is how many watches one address has at once.
const mostOfOne = 16

// watch writes each change as a line of JSON, until the client leaves. since is the last revision that the client knows;
// without it, everything is sent first.
func (s *Source) watch(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "since", "kind", "only")
	if err != nil {
		return err
	}
	since, err := number(q, "since", 0, 1<<63)
	if err != nil {
		return err
	}
	only := q.Get("only")
	if only != "" && only != "services" && only != "objects" {
		return refuse(http.StatusBadRequest, "only: %s; want services or objects", quoted(only))
	}
	c := &cursor{to: since, began: since, wanted: func(k book.Key) bool {
		return (only == "" || (only == "services") == (k.Kind == "")) && (!q.Has("kind") || k.Kind == q.Get("kind"))
	}}
	s.mu.Lock()
	floor, now := s.book.Floor(), s.book.Revision()
	s.mu.Unlock()
	switch {
	case since == 0:
		c.began = now
	case since < floor || since > now:
		return refuse(http.StatusGone,
			"what changed after revision %d is not known any more; watch without since, or list, and watch since then", since)
	}
	leave, ok := s.server.sit(r, s.opts.MaxWatches)
	if !ok {
		return refuse(http.StatusServiceUnavailable, "too many watches at once; try again, or share one")
	}
	defer leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a writer without them, as a test's, has no limit
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	marks := time.NewTicker(markEach)
	defer marks.Stop()
	for first := true; ; {
		lines, more, changed := c.next(s)
		if first && !more {
			lines, first = append(lines, line{Type: "mark", Revision: c.to}), false
		}
		if !s.server.send(w, control, lines) || c.lost {
			return nil
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-marks.C:
			if s.allowed(r) != nil || !s.server.send(w, control, []line{{Type: "mark", Revision: c.to}}) {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}

// send writes lines, and reports whether the client takes them.
func (v *server) send(w http.ResponseWriter, control *http.ResponseController, lines []line) bool {
	if len(lines) == 0 {
		return true
	}
	_ = control.SetWriteDeadline(time.Now().Add(v.patient)) // as above
	for _, l := range lines {
		if _, err := w.Write(append(encode(l), '\n')); err != nil {
			return false
		}
	}
	return control.Flush() == nil
}

// cursor is how far a watch has come.
type cursor struct {
	to     uint64 // everything up to this revision was sent
	began  uint64 // what went until then is of no interest
	wanted func(book.Key) bool
	lost   bool // what went since may be forgotten: the client has to begin anew
}

// next returns the next lines, whether there are more of them now, and a channel that is closed once there are more.
func (c *cursor) next(s *Source) (lines []line, more bool, changed chan struct{}) {
	s.mu.Lock()
	if s.book.Floor() > max(c.to, c.began) {
		c.lost = true
		lines = []line{{Type: "gap", Revision: s.book.Revision()}}
		s.mu.Unlock()
		return lines, false, nil
	}
	found, to := s.book.Since(c.to, mostItems, mostBytes, func(e *book.Entry) bool {
		return c.wanted(e.Key) && (e.Body != nil || e.Revision > c.began)
	})
	more, changed = to != s.book.Revision(), s.changed
	s.mu.Unlock()
	c.to = to
	lines = make([]line, 0, len(found)+1)
	for _, e := range found {
		lines = append(lines, lineOf(e))
	}
	return lines, more, changed
}

// sit takes a place of a watch, if one is left.
func (v *server) sit(r *http.Request, most int) (leave func(), ok bool) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all >= most || v.watches[from] >= mostOfOne {
		return nil, false
	}
	v.all++
	v.watches[from]++
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.all--
		if v.watches[from]--; v.watches[from] == 0 {
			delete(v.watches, from)
		}
	}, true
}
