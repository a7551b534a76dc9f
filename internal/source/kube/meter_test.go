package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"fairway/internal/source"
)

// counted is a Meter that keeps what it is told, and closes done after so many events.
type counted struct {
	mu     sync.Mutex
	events []string
	failed int
	done   chan struct{}
}

func (c *counted) Event(kind, event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events = append(c.events, kind+" "+event); len(c.events) == 3 {
		close(c.done)
	}
}

func (c *counted) Failed(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed++
}

// deaf is a sink that takes everything.
type deaf struct{}

func (deaf) Apply(source.Update) {}

// TestEventsAreCounted: an API server refuses one watch, and tells three things of Nodes on the next one, which count once each. A list
// is no event.
func TestEventsAreCounted(t *testing.T) {
	var mu sync.Mutex
	refused := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		node := func(version string) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n", "resourceVersion": version}}
		}
		answer := json.NewEncoder(w)
		switch watches := r.URL.Query().Get("watch") != ""; {
		case r.URL.Path != "/api/v1/nodes":
			http.Error(w, "there is none", http.StatusNotFound)
		case !watches:
			_ = answer.Encode(map[string]any{
				"apiVersion": "v1", "kind": "NodeList", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{node("1")},
			})
		default:
			mu.Lock()
			first := !refused
			refused = true
			mu.Unlock()
			if first {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			for i, event := range []string{"MODIFIED", "DELETED", "ADDED"} {
				_ = answer.Encode(map[string]any{"type": event, "object": node(string(rune('2' + i)))})
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	c := &counted{done: make(chan struct{})}
	s, err := New(Options{
		Cluster: "east", Domain: "cluster.local", Namespace: "istio-system", Remote: true, Meter: c,
		Config: &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx, deaf{}) }()
	defer func() { stop(); <-ended }()
	select {
	case <-c.done:
	case <-ctx.Done():
		t.Fatal("events are missing")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := slices.DeleteFunc(slices.Clone(c.events), func(e string) bool { return !strings.HasPrefix(e, "Node ") })
	if want := []string{"Node update", "Node delete", "Node add"}; !slices.Equal(nodes, want) || c.failed == 0 {
		t.Errorf("%v and %d failures, want %v and some", c.events, c.failed, want)
	}
}
