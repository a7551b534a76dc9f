package nomadstandin

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Everywhere means all namespaces.
const Everywhere = "*"

// Options of a Server.
type Options struct {
	Heartbeat time.Duration // of streams; 0: ten seconds, as Nomad's
	Buffer    int           // events that are kept; 0: 100, as Nomad's
	TLS       *tls.Config   // nil: none
	// Tokens are which namespaces a token may read (Everywhere: all, and streams of all); nil: no token is needed.
	Tokens map[string][]string
}

// Server is one. It serves until its test ends.
type Server struct {
	o       Options
	address string

	mu       sync.Mutex
	http     *httptest.Server                                          // nil while it is down
	index    uint64                                                    // of the last write
	table    uint64                                                    // of the last write of services
	services map[string]map[string]map[string]*api.ServiceRegistration // by namespace, name, id
	events   []api.Events                                              // in order of index
	changed  chan struct{}                                             // closed at the next write, and when streams are cut
	cut      chan struct{}                                             // closed when streams are cut
	asked    map[string]int
	fault    http.HandlerFunc
}

// Start starts one, with nothing in it.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Heartbeat == 0 {
		o.Heartbeat = 10 * time.Second
	}
	if o.Buffer == 0 {
		o.Buffer = 100
	}
	s := &Server{o: o, changed: make(chan struct{}), cut: make(chan struct{}), asked: map[string]int{}}
	s.forget()
	s.index = 10
	s.serve(t, "127.0.0.1:0")
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *Server) forget() {
	s.services, s.events, s.index, s.table = map[string]map[string]map[string]*api.ServiceRegistration{}, nil, 1, 0
}

func (s *Server) serve(t testing.TB, at string) {
	t.Helper()
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s)
	web.Listener.Close()
	if web.Listener = listener; s.o.TLS != nil {
		web.TLS = s.o.TLS
		web.StartTLS()
	} else {
		web.Start()
	}
	s.mu.Lock()
	s.http, s.address = web, listener.Addr().String()
	s.mu.Unlock()
}

func (s *Server) stop() {
	s.mu.Lock()
	web := s.http
	s.http = nil
	s.mu.Unlock()
	if web == nil {
		return
	}
	s.CutStreams()
	web.CloseClientConnections()
	web.Close()
}

// URL returns the address that clients use.
func (s *Server) URL() string {
	if s.o.TLS != nil {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// Kill ends the server at once; Run starts it again, at the same address, with the services from before or with none.
func (s *Server) Kill() { s.stop() }

// Run serves again after Kill, with the services from before or with none.
func (s *Server) Run(t testing.TB, empty bool) {
	t.Helper()
	if empty {
		s.mu.Lock()
		s.forget()
		s.mu.Unlock()
	}
	s.serve(t, s.address)
}

// CutStreams ends all streams of events, and blocking queries.
func (s *Server) CutStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// ForgetEvents makes the server drop its events.
func (s *Server) ForgetEvents() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = nil
}

// BreakBy has another handler answer everything; nil: the server itself does.
func (s *Server) BreakBy(fault http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Tokens says which namespaces a token may read from now on.
func (s *Server) Tokens(all map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Tokens = all
}

// Asked is how often a path has been asked for: "/v1/services", "/v1/service/", "/v1/event/stream".
func (s *Server) Asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// Pass changes something other than services: the index goes on, and clients that follow services get no event.
func (s *Server) Pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(nil)
}

// Register registers instances, all at one index, again if they are registered.
func (s *Server) Register(all ...*api.ServiceRegistration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []api.Event
	for _, r := range all {
		one := *r
		if one.Namespace == "" {
			one.Namespace = api.DefaultNamespace
		}
		if s.services[one.Namespace] == nil {
			s.services[one.Namespace] = map[string]map[string]*api.ServiceRegistration{}
		}
		of := s.services[one.Namespace]
		if of[one.ServiceName] == nil {
			of[one.ServiceName] = map[string]*api.ServiceRegistration{}
		}
		one.CreateIndex, one.ModifyIndex = s.index+1, s.index+1
		if old := of[one.ServiceName][one.ID]; old != nil {
			one.CreateIndex = old.CreateIndex
		}
		of[one.ServiceName][one.ID] = &one
		events = append(events, s.event("ServiceRegistration", &one))
	}
	s.write(events)
}

// Deregister takes an instance back; false: it was not there.
func (s *Server) Deregister(namespace, service, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.services[namespace][service]
	r := of[id]
	if r == nil {
		return false
	}
	if delete(of, id); len(of) == 0 {
		if delete(s.services[namespace], service); len(s.services[namespace]) == 0 {
			delete(s.services, namespace)
		}
	}
	s.write([]api.Event{s.event("ServiceDeregistration", r)})
	return true
}

func (s *Server) event(kind string, r *api.ServiceRegistration) api.Event {
	text, err := json.Marshal(map[string]any{"Service": r})
	if err != nil {
		panic(err) // a registration can always be written
	}
	var payload map[string]any
	if err := json.Unmarshal(text, &payload); err != nil {
		panic(err)
	}
	return api.Event{
		Topic: api.TopicService, Type: kind, Key: r.ID, FilterKeys: []string{r.JobID, r.ServiceName}, Index: s.index + 1, Payload: payload,
	}
}

// write goes on by one index.
func (s *Server) write(events []api.Event) {
	s.index++
	if len(events) > 0 {
		s.table = s.index
		s.events = append(s.events, api.Events{Index: s.index, Events: events})
		s.events = s.events[max(0, len(s.events)-s.o.Buffer):]
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name, of := strings.CutPrefix(q.URL.Path, "/v1/service/")
	s.mu.Lock()
	if of {
		s.asked["/v1/service/"]++
	} else {
		s.asked[q.URL.Path]++
	}
	fault, down := s.fault, s.http == nil
	s.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	namespace := q.URL.Query().Get("namespace")
	if namespace == "" {
		namespace = api.DefaultNamespace
	}
	switch {
	case fault != nil:
		fault(w, q)
	case q.URL.Path == "/v1/services" && q.Method == http.MethodGet:
		s.list(w, q, namespace)
	case q.URL.Path == "/v1/event/stream" && q.Method == http.MethodGet:
		s.stream(w, q, namespace)
	case of && q.Method == http.MethodGet:
		s.read(w, q, namespace, name)
	case of && q.Method == http.MethodDelete:
		service, id, _ := strings.Cut(name, "/")
		switch {
		case !s.may(q, namespace):
			denied(w)
		case !s.Deregister(namespace, service, id):
			http.Error(w, "service registration not found", http.StatusNotFound)
		}
	default:
		http.NotFound(w, q)
	}
}

func denied(w http.ResponseWriter) {
	http.Error(w, api.PermissionDeniedErrorContent, http.StatusForbidden)
}

// may reports whether a request's token reads a namespace; of Everywhere: all of them.
func (s *Server) may(q *http.Request, namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Tokens == nil {
		return true
	}
	rights := s.o.Tokens[q.Header.Get("X-Nomad-Token")]
	return slices.Contains(rights, namespace) || slices.Contains(rights, Everywhere)
}

// known reports whether a request's token is one.
func (s *Server) known(q *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.o.Tokens[q.Header.Get("X-Nomad-Token")]
	return is || s.o.Tokens == nil
}

// blocks waits as blocking queries do: until the table is beyond the index that is asked with, or for the time that is.
func (s *Server) blocks(q *http.Request) {
	index, _ := strconv.ParseUint(q.URL.Query().Get("index"), 10, 64)
	if index == 0 {
		return
	}
	wait, err := time.ParseDuration(q.URL.Query().Get("wait"))
	if err != nil || wait <= 0 {
		wait = 5 * time.Minute
	}
	over := time.NewTimer(min(wait, 10*time.Minute))
	defer over.Stop()
	for {
		s.mu.Lock()
		changed, cut, table, down := s.changed, s.cut, s.table, s.http == nil
		s.mu.Unlock()
		if table > index || down {
			return
		}
		select {
		case <-changed:
		case <-cut:
			return
		case <-over.C:
			return
		case <-q.Context().Done():
			return
		}
	}
}

// answer writes what of returns while nothing changes.
func (s *Server) answer(w http.ResponseWriter, of func() any) {
	s.mu.Lock()
	text, err := json.Marshal(of())
	index := max(s.table, 1)
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
	w.Header().Set("X-Nomad-LastContact", "0")
	w.Header().Set("X-Nomad-KnownLeader", "true")
	_, _ = w.Write(text)
}

func (s *Server) list(w http.ResponseWriter, q *http.Request, namespace string) {
	if namespace != Everywhere && !s.may(q, namespace) || !s.known(q) {
		denied(w)
		return
	}
	var seen []string // namespaces: of all, those alone that the token may read
	s.blocks(q)
	s.mu.Lock()
	seen = slices.Sorted(maps.Keys(s.services))
	s.mu.Unlock()
	seen = slices.DeleteFunc(seen, func(n string) bool { return namespace != Everywhere && n != namespace || !s.may(q, n) })
	s.answer(w, func() any {
		out := []*api.ServiceRegistrationListStub{}
		for _, n := range seen {
			one := &api.ServiceRegistrationListStub{Namespace: n}
			for _, name := range slices.Sorted(maps.Keys(s.services[n])) {
				tags := map[string]bool{}
				for _, r := range s.services[n][name] {
					for _, t := range r.Tags {
						tags[t] = true
					}
				}
				one.Services = append(one.Services, &api.ServiceRegistrationStub{ServiceName: name, Tags: slices.Sorted(maps.Keys(tags))})
			}
			out = append(out, one)
		}
		return out
	})
}

func (s *Server) read(w http.ResponseWriter, q *http.Request, namespace, name string) {
	if !s.may(q, namespace) {
		denied(w)
		return
	}
	s.blocks(q)
	s.answer(w, func() any {
		out := []*api.ServiceRegistration{}
		of := s.services[namespace][name]
		for _, id := range slices.Sorted(maps.Keys(of)) {
			out = append(out, of[id])
		}
		return out
	})
}

// stream tells events from an index on: from the first that there still is, where it has been forgotten.
func (s *Server) stream(w http.ResponseWriter, q *http.Request, namespace string) {
	if !s.may(q, namespace) {
		denied(w)
		return
	}
	for _, topic := range q.URL.Query()["topic"] {
		if topic != "Service" && topic != "Service:*" {
			http.Error(w, fmt.Sprintf("the stand-in has no topic %q", topic), http.StatusBadRequest)
			return
		}
	}
	next, err := strconv.ParseUint(q.URL.Query().Get("index"), 10, 64)
	if err != nil && q.URL.Query().Get("index") != "" {
		http.Error(w, "Unable to parse index", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	beat := time.NewTicker(s.o.Heartbeat)
	defer beat.Stop()
	for {
		s.mu.Lock()
		changed, cut, down := s.changed, s.cut, s.http == nil
		var tell []api.Events
		for _, e := range s.events {
			if e.Index >= next {
				tell = append(tell, e)
			}
		}
		s.mu.Unlock()
		if down {
			return
		}
		for _, e := range tell {
			next = e.Index + 1
			e.Events = slices.DeleteFunc(slices.Clone(e.Events), func(one api.Event) bool {
				return namespace != Everywhere && one.Payload["Service"].(map[string]any)["Namespace"] != namespace
			})
			if len(e.Events) == 0 {
				continue
			}
			if out.Encode(map[string]any{"Index": e.Index, "Events": e.Events}) != nil {
				return
			}
		}
		if len(tell) > 0 {
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-changed:
		case <-cut:
			return
		case <-beat.C:
			if _, err := w.Write([]byte("{}\n")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		case <-q.Context().Done():
			return
		}
	}
}
