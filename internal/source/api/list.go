package api

import (
	"encoding/json"
	"fairway/internal/source/api/book"
	"net/http"
	"net/url"
)

// page is a part of a list.
type page struct {
	Revision uint64            `json:"revision"` // of the state when it was read
	Items    []json.RawMessage `json:"items"`
	Next     uint64            `json:"next,omitempty"` // "after" of the next page; none: this is the last
}

// object is a rule as lists and watches show it.
type object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Text      string `json:"text,omitempty"` // as it was put
}

// item is one thing of a list.
type item struct {
	Revision uint64          `json:"revision"`
	Service  json.RawMessage `json:"service,omitempty"`
	Object   *object         `json:"object,omitempty"`
}

func itemOf(e *book.Entry) item {
	if e.Key.Kind == "" {
		return item{Revision: e.Revision, Service: e.Body}
	}
	return item{Revision: e.Revision, Object: &object{e.Key.Kind, e.Key.Namespace, e.Key.Name, string(e.Body)}}
}

// Limits of one answer, or of one write to a watch.
const (
	mostItems = 1000
	mostBytes = 4 << 20
)

func (s *Source) listServices(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "namespace", "limit", "after")
	if err != nil {
		return err
	}
	return s.list(w, q, func(k book.Key) bool { return k.Kind == "" })
}

func (s *Source) listObjects(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "kind", "namespace", "limit", "after")
	if err != nil {
		return err
	}
	return s.list(w, q, func(k book.Key) bool { return k.Kind != "" && (!q.Has("kind") || k.Kind == q.Get("kind")) })
}

func (s *Source) list(w http.ResponseWriter, q url.Values, wanted func(book.Key) bool) error {
	after, err := number(q, "after", 0, 1<<63)
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", 500, mostItems)
	if err != nil {
		return err
	}
	in, has := q.Get("namespace"), q.Has("namespace")
	s.mu.Lock()
	found, to := s.book.Since(after, int(max(limit, 1)), mostBytes, func(e *book.Entry) bool {
		return e.Body != nil && wanted(e.Key) && (!has || e.Key.Namespace == in)
	})
	out := page{Revision: s.book.Revision(), Items: make([]json.RawMessage, len(found))}
	s.mu.Unlock()
	if to != out.Revision {
		out.Next = to
	}
	for i, e := range found {
		out.Items[i] = encode(itemOf(e))
	}
	show(w, http.StatusOK, out)
	return nil
}
