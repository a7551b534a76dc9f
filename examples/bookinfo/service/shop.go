package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
)

// answer is the reply of every role.
type answer struct {
	Service string  `json:"service"`
	Version string  `json:"version"`
	Status  int     `json:"status"`
	Error   string  `json:"error,omitempty"`
	Stars   int     `json:"stars,omitempty"`
	Reviews *answer `json:"reviews,omitempty"`
	Ratings *answer `json:"ratings,omitempty"`
}

// shop is one instance. Once it serves, its fields are read-only, except the counter.
type shop struct {
	role, version string
	upstream      upstream
	failures      failures
	served        atomic.Uint64
}

// failures says that of every `of` requests the first `count` fail.
type failures struct{ count, of uint64 }

func parseFailures(s string) (failures, error) {
	var f failures
	if n, err := fmt.Sscanf(s, "%d/%d", &f.count, &f.of); n != 2 || err != nil || f.of == 0 || f.count > f.of {
		return f, fmt.Errorf("--fail %q is not n/m with n at most m", s)
	}
	return f, nil
}

// handler serves the role's page, and /healthz, which never fails.
func (s *shop) handler() (http.Handler, error) {
	pages := map[string]func(*http.Request) answer{
		"productpage": s.productpage,
		"reviews":     s.reviews,
		"ratings":     s.ratings,
	}
	page, ok := pages[s.role]
	if !ok {
		return nil, fmt.Errorf("--role %q is not one of productpage, reviews, ratings", s.role)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.reply(w, r, page) })
	return mux, nil
}

func (s *shop) reply(w http.ResponseWriter, r *http.Request, page func(*http.Request) answer) {
	a := answer{Service: s.role, Version: s.version, Status: http.StatusServiceUnavailable, Error: "told to fail"}
	if n := s.served.Add(1) - 1; n%s.failures.of >= s.failures.count {
		a = page(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	if err := json.NewEncoder(w).Encode(a); err != nil {
		return // the client has gone
	}
}

func (s *shop) ok() answer {
	return answer{Service: s.role, Version: s.version, Status: http.StatusOK}
}

// productpage shows reviews; without them there is no page.
func (s *shop) productpage(r *http.Request) answer {
	a := s.ok()
	if s.upstream.address == "" {
		return a
	}
	a.Reviews = s.upstream.ask(r, "reviews")
	if a.Reviews.Status != http.StatusOK {
		a.Status, a.Error = http.StatusBadGateway, "no reviews"
	}
	return a
}

// reviews serves the reviews page. From v2 on it has stars. If ratings fail, the page has an error text in their place.
func (s *shop) reviews(r *http.Request) answer {
	a := s.ok()
	if s.version == "v1" || s.upstream.address == "" {
		return a
	}
	a.Ratings = s.upstream.ask(r, "ratings")
	if a.Ratings.Status != http.StatusOK {
		a.Error = "ratings are not available"
	}
	return a
}

func (s *shop) ratings(*http.Request) answer {
	a := s.ok()
	a.Stars = 5
	return a
}
