package xds

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fairway/internal/xdstype"
)

// echo answers each question with its names.
type echo struct{}

func (echo) Asks(typ string) bool { return typ == "question" }

func (echo) Answer(_ context.Context, _ net.Addr, q Question) (proto.Message, error) {
	if q.Names[0] == "panic" {
		panic("no answer")
	}
	return &discoveryv3.DiscoveryResponse{TypeUrl: q.Type, VersionInfo: q.Names[0], Nonce: "1"}, nil
}

// TestQuestions: a stream of questions is no proxy's, is answered in order, and is one of few.
func TestQuestions(t *testing.T) {
	h := newFixture(t, Options{Asker: echo{}})
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(h.dial())
	open := func() (s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient, ask func(name string) error) {
		s, err := client.StreamAggregatedResources(patience(t))
		if err != nil {
			t.Fatal(err)
		}
		return s, func(name string) error {
			q := &discoveryv3.DiscoveryRequest{TypeUrl: "question", ResourceNames: []string{name}}
			if err := s.Send(q); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			r, err := s.Recv()
			if err == nil && r.GetVersionInfo() != name {
				t.Errorf("asked %q, answered %q", name, r.GetVersionInfo())
			}
			return err
		}
	}
	one, ask := open()
	for _, name := range []string{"a", "b"} {
		if err := ask(name); err != nil {
			t.Fatal(err)
		}
	}
	if all := h.srv.Status(); len(all) != 0 || len(h.hooks.connected) != 0 {
		t.Errorf("a stream of questions counts as a proxy's: %v", all)
	}
	if _, ask := open(); status.Code(ask("panic")) != codes.Internal {
		t.Error("a panic does not end its stream")
	}
	if err := ask("c"); err != nil {
		t.Errorf("another stream, after a panic: %v", err)
	}
	for h.srv.asking.Load() < mostAsking {
		if _, ask := open(); ask("d") != nil {
			t.Fatal("a stream is refused early")
		}
	}
	if _, ask := open(); status.Code(ask("e")) != codes.ResourceExhausted {
		t.Errorf("more than %d streams ask", mostAsking)
	}
	wrong := h.delta(patience(t))
	wrong.ask("p", "question", "a")
	if e := wrong.end(); e.Code() != codes.InvalidArgument {
		t.Errorf("the incremental form: %v", e)
	}
	h.attach("p", "all")
	h.put(cluster("c", 1))
	proxy := h.delta(patience(t))
	proxy.ask("p", xdstype.ClusterURL)
	proxy.expect("Cluster c")
	if err := h.srv.Drain(patience(t), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after a drain: %v", err)
	}
}
