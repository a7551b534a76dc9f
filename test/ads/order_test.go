package ads

import (
	"context"
	"io"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// one is a stream with one response. It notes whether the event of the response was delivered before the ACK.
type one struct {
	told, toldAtACK bool
	received        bool
}

func (*one) ask(string, []string, []string, bool) error { return nil }
func (*one) report(string, *statuspb.Status) error      { return nil }

func (s *one) ack(response) error {
	s.toldAtACK = s.told
	return nil
}

func (s *one) receive() (response, error) {
	if s.received {
		return response{}, io.EOF
	}
	s.received = true
	return response{typ: ClusterType, nonce: "1"}, nil
}

// TestACKAfterEvent: an observer that has seen the ACK of a response has its event.
func TestACKAfterEvent(t *testing.T) {
	s := &one{}
	c := New(&corev3.Node{}, NewReader(), func(ev Event) { s.told = s.told || ev.Err == nil })
	c.done = make(chan struct{})
	c.read(context.Background(), s)
	if !s.toldAtACK {
		t.Error("a response was acknowledged before its event")
	}
}
