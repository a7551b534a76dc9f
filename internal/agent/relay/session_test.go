package relay

import (
	"log/slog"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"fairway/internal/xdstype"
)

// hand is a session that the test moves step by step, in place of its goroutine.
type hand struct {
	*session
	t *testing.T
}

func (h hand) asks(r request) {
	h.t.Helper()
	if err := h.ask(h.t.Context(), r.encode()); err != nil {
		h.t.Fatal(err)
	}
}

// hears has the control plane send resources and removals of a type; it returns the nonce that Envoy sees.
func (h hand) hears(typ string, removed []string, items ...versioned) string {
	h.t.Helper()
	var bodies [][]byte
	for _, v := range items {
		bodies = append(bodies, body(v.name, v.version, v.version))
	}
	if err := h.forward(message{response{typ: typ, removed: removed}.encode(bodies, "n")}); err != nil {
		h.t.Fatal(err)
	}
	flights := h.types[typ].flights
	return flights[len(flights)-1].nonce
}

func newHand(t *testing.T, r *Relay) hand {
	s := r.newSession(&downstream{})
	t.Cleanup(s.end)
	return hand{s, t}
}

// TestWhatIsHeardLateIsNotKept: a session that is late to hear what its Envoy said last does not undo what the Envoy's
// next session has kept since.
func TestWhatIsHeardLateIsNotKept(t *testing.T) {
	dir := t.TempDir()
	r, err := New(Options{
		Socket: filepath.Join(dir, "XDS"), Address: "passthrough:///nobody", CacheDir: dir, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.conn, err = grpc.NewClient(r.o.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.conn.Close()
	node := []byte{}

	first := newHand(t, r)
	first.asks(request{node: node, typ: xdstype.ClusterURL})
	first.asks(request{typ: xdstype.ClusterURL, nonce: first.hears(xdstype.ClusterURL, nil, versioned{"a", "1"}, versioned{"b", "1"})})
	first.asks(request{typ: xdstype.ListenerURL})
	first.asks(request{typ: xdstype.ListenerURL, nonce: first.hears(xdstype.ListenerURL, nil, versioned{"l", "1"})})
	late := request{typ: xdstype.ClusterURL, nonce: first.hears(xdstype.ClusterURL, []string{"b"})}

	second := newHand(t, r)
	second.asks(request{node: node, typ: xdstype.ClusterURL, initial: []versioned{{"a", "1"}}})
	second.asks(request{typ: xdstype.ListenerURL, initial: []versioned{{"l", "1"}}})
	second.asks(request{typ: xdstype.ClusterURL, nonce: second.hears(xdstype.ClusterURL, nil, versioned{"b", "2"})})
	first.asks(late)
	first.hears(xdstype.ClusterURL, []string{"a"})
	if !r.isCurrent(second.cache) {
		t.Fatal("the second session has a cache of its own")
	}
	second.cache.check(t, xdstype.ClusterURL, map[string]string{"a": "1", "b": "2"})

	// The first Envoy may as well be the one that stays. It has taken what it was sent, and that a is gone among it.
	first.asks(request{typ: xdstype.ClusterURL, nonce: first.hears(xdstype.ClusterURL, nil, versioned{"c", "3"})})
	second.end()
	first.takeOver(t.Context())
	first.cache.check(t, xdstype.ClusterURL, map[string]string{})
	if known := first.types[xdstype.ClusterURL].known; known["c"] != "" {
		t.Errorf("what is not kept is not asked for again: %v", known)
	}
	first.asks(request{typ: xdstype.ClusterURL, nonce: first.hears(xdstype.ClusterURL, nil, versioned{"c", "3"})})
	first.cache.check(t, xdstype.ClusterURL, map[string]string{"c": "3"})
}
