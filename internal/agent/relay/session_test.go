package relay

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"fairway/internal/agent/relay/wire"
	"fairway/internal/xdstype"
)

// hand is a session that the test moves step by step, in place of its goroutine.
type hand struct {
	*session
	t *testing.T
}

func (h hand) asks(r wire.Request) {
	h.t.Helper()
	if err := h.ask(h.t.Context(), r.Encode()); err != nil {
		h.t.Fatal(err)
	}
}

// hears has the control plane send resources and removals of a type; it returns the nonce that Envoy sees.
func (h hand) hears(typ string, removed []string, items ...wire.Versioned) string {
	h.t.Helper()
	var bodies [][]byte
	for _, v := range items {
		bodies = append(bodies, wire.EncodeResource(typ, v, []byte(v.Version)))
	}
	if err := h.forward(wire.Message{wire.Response{Type: typ, Removed: removed}.Encode(bodies, "n")}); err != nil {
		h.t.Fatal(err)
	}
	flights := h.types[typ].flights
	return flights[len(flights)-1].nonce
}

// keeps checks which versions of a type's resources are in the session's cache, and that all of them can be read.
func (h hand) keeps(typ string, want map[string]string) {
	h.t.Helper()
	if got, _ := h.cache.Versions(typ); !maps.Equal(got, want) {
		h.t.Errorf("%s: kept are %v, want %v", typ, got, want)
	}
	bodies, _, took, err := h.cache.Read(typ, slices.Sorted(maps.Keys(want)))
	if err != nil || took != len(want) || len(bodies) != len(want) {
		h.t.Errorf("%s: %d bodies of %d names, %v; want all of %v", typ, len(bodies), took, err, want)
	}
}

func version(name, version string) wire.Versioned {
	return wire.Versioned{Name: name, Version: version}
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
	first.asks(wire.Request{Node: node, Type: xdstype.ClusterURL})
	nonce := first.hears(xdstype.ClusterURL, nil, version("a", "1"), version("b", "1"))
	first.asks(wire.Request{Type: xdstype.ClusterURL, Nonce: nonce})
	first.asks(wire.Request{Type: xdstype.ListenerURL})
	first.asks(wire.Request{Type: xdstype.ListenerURL, Nonce: first.hears(xdstype.ListenerURL, nil, version("l", "1"))})
	late := wire.Request{Type: xdstype.ClusterURL, Nonce: first.hears(xdstype.ClusterURL, []string{"b"})}

	second := newHand(t, r)
	second.asks(wire.Request{Node: node, Type: xdstype.ClusterURL, Initial: []wire.Versioned{version("a", "1")}})
	second.asks(wire.Request{Type: xdstype.ListenerURL, Initial: []wire.Versioned{version("l", "1")}})
	second.asks(wire.Request{Type: xdstype.ClusterURL, Nonce: second.hears(xdstype.ClusterURL, nil, version("b", "2"))})
	first.asks(late)
	first.hears(xdstype.ClusterURL, []string{"a"})
	if !r.isCurrent(second.cache) {
		t.Fatal("the second session has a cache of its own")
	}
	second.keeps(xdstype.ClusterURL, map[string]string{"a": "1", "b": "2"})

	// The first Envoy may as well be the one that stays. It has taken what it was sent, and that a is gone among it.
	first.asks(wire.Request{Type: xdstype.ClusterURL, Nonce: first.hears(xdstype.ClusterURL, nil, version("c", "3"))})
	second.end()
	first.takeOver(t.Context())
	first.keeps(xdstype.ClusterURL, map[string]string{})
	if known := first.types[xdstype.ClusterURL].known; known["c"] != "" {
		t.Errorf("what is not kept is not asked for again: %v", known)
	}
	first.asks(wire.Request{Type: xdstype.ClusterURL, Nonce: first.hears(xdstype.ClusterURL, nil, version("c", "3"))})
	first.keeps(xdstype.ClusterURL, map[string]string{"c": "3"})
}
