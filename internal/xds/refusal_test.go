package xds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// refusalRecorder records refusals and panics.
type refusalRecorder struct {
	refused  chan Refusal
	panicked chan string
}

func (d *refusalRecorder) watch(o Options) Options {
	d.refused, d.panicked = make(chan Refusal, 1000), make(chan string, 10)
	o.Refused = func(r Refusal) { d.refused <- r }
	o.Panicked = func(where string, value any, stack []byte) {
		d.panicked <- fmt.Sprintf("%s: %v, %v", where, value, strings.Contains(string(stack), "xds."))
	}
	return o
}

// expect checks a stream's end and the refusal that was reported.
func (d *refusalRecorder) expect(t *testing.T, end *status.Status, code codes.Code, reason Reason) {
	t.Helper()
	if end.Code() != code {
		t.Errorf("ended with %v %q, want %v", end.Code(), end.Message(), code)
	}
	select {
	case r := <-d.refused:
		if r.Reason != reason || status.Code(r.Err) != code {
			t.Errorf("told of as %s: %v; want %s", r.Reason, r.Err, reason)
		}
	case <-patience(t).Done():
		t.Errorf("nobody is told: %v", end)
	}
}

func TestRefusals(t *testing.T) {
	var d refusalRecorder
	t.Run("silent", func(t *testing.T) {
		h := newFixture(t, d.watch(Options{FirstWait: 20 * time.Millisecond}))
		d.expect(t, h.delta(patience(t)).end(), codes.DeadlineExceeded, ReasonSilent)
	})
	t.Run("refused before it said anything", func(t *testing.T) {
		h := newFixture(t, d.watch(Options{Arrive: func(context.Context, net.Addr) error { return errors.New("who are you") }}))
		d.expect(t, h.delta(patience(t)).end(), codes.PermissionDenied, ReasonIdentity)
	})
	t.Run("refused for what it said", func(t *testing.T) {
		h := newFixture(t, d.watch(Options{}))
		h.hooks.refuse = errors.New("not you")
		s := h.delta(patience(t))
		s.ask("p", xdstype.ClusterURL)
		d.expect(t, s.end(), codes.PermissionDenied, ReasonIdentity)
	})
	t.Run("pending streams fill no place of others", func(t *testing.T) {
		h := newFixture(t, d.watch(Options{MaxStreams: 1, MaxPending: 100, FirstWait: time.Minute}))
		h.attach("p", "all")
		for range 20 {
			h.delta(patience(t))
		}
		s := h.delta(patience(t))
		s.ask("p", xdstype.ClusterURL)
		s.expect("Cluster")
		if all := h.srv.Status(); len(all) != 1 || all[0].Proxy != "p" {
			t.Errorf("streams: %+v", all)
		}
	})
	t.Run("types", func(t *testing.T) {
		h := newFixture(t, d.watch(Options{}))
		h.attach("p", "all")
		s := h.delta(patience(t))
		for i := range 32 { // as many as one stream may ask for that this server never had
			s.ask("p", fmt.Sprintf("unknown%d", i))
			s.expect(fmt.Sprintf("unknown%d", i))
		}
		s.ask("p", xdstype.ClusterURL)
		s.expect("Cluster")
		s.ask("p", "one more")
		d.expect(t, s.end(), codes.ResourceExhausted, ReasonTypes)
		h.hooks.mu.Lock()
		defer h.hooks.mu.Unlock()
		for _, sent := range h.hooks.sent {
			if sent.Type != xdstype.Other && sent.Type != xdstype.ClusterURL {
				t.Errorf("counted as %q", sent.Type)
			}
		}
	})
	t.Run("600,000 names", func(t *testing.T) {
		h := newFixture(t, d.watch(Options{}))
		h.attach("p", "all")
		s := h.delta(patience(t))
		names := make([]string, 600_000)
		for i := range names {
			names[i] = fmt.Sprintf("n%d", i)
		}
		before := xdstest.LiveHeap()
		s.ask("p", xdstype.EndpointURL, names...)
		d.expect(t, s.end(), codes.ResourceExhausted, ReasonNames)
		if grown := xdstest.LiveHeap() - before; grown > 8<<20 {
			t.Errorf("%d MB are kept", grown>>20)
		}
	})
}

// TestDrainEndsPendingStreams drains while streams have not identified themselves.
func TestDrainEndsPendingStreams(t *testing.T) {
	h := newFixture(t, Options{FirstWait: time.Minute})
	h.attach("p", "all")
	silent, said := h.delta(patience(t)), h.delta(patience(t))
	said.ask("p", xdstype.ClusterURL)
	said.expect("Cluster")
	if err := h.srv.Drain(patience(t), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*deltaStream{silent, said} {
		if end := s.end(); end.Code() != codes.Unavailable {
			t.Errorf("ended with %v", end)
		}
	}
}

// panics is a recorder that panics on demand.
type panics struct {
	*recorder
	connect, sent bool
}

func (p *panics) Connect(ctx context.Context, node *corev3.Node, peer net.Addr) (library.ProxyID, error) {
	if p.connect && node.GetId() == "bad" {
		panic("in Connect")
	}
	return p.recorder.Connect(ctx, node, peer)
}

func (p *panics) Sent(s Sent) {
	if p.sent && s.Proxy == "bad" {
		panic("in Sent")
	}
}

// TestPanics has each goroutine of a stream panic: it ends that stream, and another goes on.
func TestPanics(t *testing.T) {
	for _, c := range []struct {
		where string
		set   func(p *panics)
		typ   string
	}{
		{"stream: in Connect, true", func(p *panics) { p.connect = true }, xdstype.ClusterURL},
		{"send: in Sent, true", func(p *panics) { p.sent = true }, xdstype.ClusterURL},
		{"stream: in a report, true", func(*panics) {}, "report"},
	} {
		t.Run(c.where, func(t *testing.T) {
			var d refusalRecorder
			hooks := &panics{recorder: &recorder{left: make(chan library.ProxyID, 10)}}
			c.set(hooks)
			opts := d.watch(Options{Reports: map[string]func(Report){"report": func(Report) { panic("in a report") }}})
			opts.Meter = hooks
			h := newFixtureOf(t, opts, hooks)
			h.attach("good", "all")
			h.attach("bad", "all")
			h.put(cluster("c", 1))
			good := h.delta(patience(t))
			good.ask("good", xdstype.ClusterURL)
			good.expect("Cluster c")
			bad := h.delta(patience(t))
			bad.ask("bad", c.typ)
			if end := bad.end(); end.Code() != codes.Internal {
				t.Errorf("ended with %v", end)
			}
			if where := <-d.panicked; where != c.where {
				t.Errorf("told of %q, want %q", where, c.where)
			}
			h.put(cluster("d", 1))
			good.expect("Cluster d")
			if len(h.srv.Status()) != 1 {
				t.Errorf("streams are left: %v", h.srv.Status())
			}
		})
	}
}

// TestPanicWhileReading has the goroutine that reads panic, as a decoder might.
func TestPanicWhileReading(t *testing.T) {
	var d refusalRecorder
	srv := NewServer(library.New(), d.watch(Options{}), &recorder{})
	st := srv.newStream(badWire{}, true)
	if err := st.serve(context.Background()); status.Code(err) != codes.Internal {
		t.Errorf("ended with %v", err)
	}
	if where := <-d.panicked; where != "receive: while reading, true" {
		t.Errorf("told of %q", where)
	}
	srv.Close()
}

// badWire panics when it is read.
type badWire struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (badWire) Context() context.Context { return context.Background() }
func (badWire) RecvMsg(any) error        { panic("while reading") }
