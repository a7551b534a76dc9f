package relay_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"fairway/internal/agent/relay"
	"fairway/test/rig"
)

// noteType is of the agent itself.
const noteType = "type.googleapis.com/fairway.test.Note"

// notes is what the agent itself holds.
type notes struct {
	refuse string // a body that is not taken

	mu      sync.Mutex
	held    map[string]string // name → body
	kept    int               // updates that came from disk
	got     int               // resources and removals from the control plane
	answers int               // of the control plane
}

func (n *notes) take(u relay.Update) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range u.Changed {
		if n.refuse != "" && string(x.Body) == n.refuse {
			return errors.New("no such note, please")
		}
	}
	if u.Kept {
		n.kept++
	} else {
		n.got += len(u.Changed) + len(u.Removed)
		n.answers++
	}
	for _, name := range u.Removed {
		delete(n.held, name)
	}
	for _, x := range u.Changed {
		n.held[x.Name] = string(x.Body)
	}
	return nil
}

func (n *notes) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held, n.kept, n.got = map[string]string{}, 0, 0
}

func (n *notes) counts() (kept, got int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept, n.got
}

func (n *notes) differs(p *plane) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	want := map[string]string{}
	for name, v := range p.have[noteType] {
		want[name] = fmt.Sprintf("%s %d%s", name, v, p.pad)
	}
	if !maps.Equal(n.held, want) {
		return fmt.Errorf("the agent holds %v, want %v", n.held, want)
	}
	return nil
}

func (n *notes) holds(p *plane) {
	p.t.Helper()
	rig.Eventually(p.t, func() error { return n.differs(p) })
}

// newOwnAgent is an agent that subscribes to all notes.
func newOwnAgent(t testing.TB, p *plane, cache bool) (*agent, *notes) {
	n := &notes{held: map[string]string{}}
	a := makeAgent(t, p, cache)
	a.o.Node = func() []byte {
		raw, err := proto.Marshal(&corev3.Node{Id: "sidecar"})
		if err != nil {
			t.Error(err)
		}
		return raw
	}
	a.before = func(r *relay.Relay) { r.Subscribe(relay.Subscription{Type: noteType, Take: n.take}) }
	a.start()
	return a, n
}

// fillNotes publishes n notes.
func (p *plane) fillNotes(n int) {
	for i := range n {
		p.set(noteType, fmt.Sprintf("n%d", i), 1)
	}
}

// TestTheAgentAsksWithoutAnEnvoy: it uses a stream of its own, and once there is an Envoy, the Envoy's stream.
func TestTheAgentAsksWithoutAnEnvoy(t *testing.T) {
	p := newPlane(t)
	p.fill(5)
	p.fillNotes(7)
	p.start()
	a, n := newOwnAgent(t, p, false)
	n.holds(p)
	p.settled(1, 1)
	if s := a.relay.Status().Sessions; len(s) != 1 || !s[0].Alone {
		t.Errorf("%+v", s)
	}
	e := newEnvoy(t, a)
	e.connect()
	e.holds(p)
	p.settled(1, 4)
	if _, got := n.counts(); got != 7 {
		t.Errorf("the agent got %d resources, want 7, once each", got)
	}
	p.set(noteType, "n3", 2)
	p.set(noteType, "n4", 0)
	n.holds(p)
	if s := a.relay.Status().Sessions; len(s) != 1 || s[0].Alone {
		t.Errorf("%+v", s)
	}
	e.disconnect()
	rig.Eventually(t, func() error {
		if s := a.relay.Status().Sessions; len(s) != 1 || !s[0].Alone {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	p.settled(1, 1)
	if _, got := n.counts(); got != 9 {
		t.Errorf("the agent got %d resources, want 9, once each", got)
	}
	if got := e.received(); got != 11 {
		t.Errorf("Envoy got %d resources, want its own 11", got)
	}
}

// TestHotRestartHandsTheAgentsStreamOver: it moves to the young Envoy's, and back if that one ends first; nothing comes twice.
func TestHotRestartHandsTheAgentsStreamOver(t *testing.T) {
	p := newPlane(t)
	p.fill(5)
	p.fillNotes(7)
	p.start()
	a, n := newOwnAgent(t, p, true)
	old, young := newEnvoy(t, a), newEnvoy(t, a)
	old.connect()
	old.holds(p)
	n.holds(p)
	p.settled(1, 4)
	for round := range uint64(5) {
		young.forget()
		young.connect()
		young.holds(p)
		p.settled(2, 4)
		p.set(noteType, "n1", 2*round+10)
		n.holds(p)
		young.disconnect()
		p.settled(1, 4)
		p.set(noteType, "n1", 2*round+11)
		n.holds(p)
	}
	p.settled(1, 4)
	if _, got := n.counts(); got != 7+10 {
		t.Errorf("the agent got %d resources, want 7 and 10 changes", got)
	}
}

func TestControlPlaneRestartsUnnoticedByTheAgent(t *testing.T) {
	p := newPlane(t)
	p.fill(5)
	p.fillNotes(7)
	p.start()
	a, n := newOwnAgent(t, p, false)
	for _, asked := range []int{1, 4} {
		if asked == 4 {
			e := newEnvoy(t, a)
			e.connect()
			e.holds(p)
		}
		n.holds(p)
		p.settled(1, asked)
		for range 3 {
			p.start()
			p.settled(1, asked)
			if sent := p.total(); sent != 0 {
				t.Fatalf("%d resources were sent again", sent)
			}
		}
	}
	p.stop()
	p.set(noteType, "n1", 2)
	p.set(noteType, "n2", 0)
	p.start()
	n.holds(p)
	p.settled(1, 4)
	if sent := p.total(); sent != 2 {
		t.Errorf("%d resources were sent for two changes", sent)
	}
}

func TestTheAgentStartsFromDisk(t *testing.T) {
	p := newPlane(t)
	p.fillNotes(7)
	p.start()
	a, n := newOwnAgent(t, p, true)
	n.holds(p)
	p.set(noteType, "n3", 2)
	p.set(noteType, "n4", 0)
	n.holds(p)
	p.settled(1, 1)
	p.stop()
	a.stop()
	n.forget()
	a.start()
	n.holds(p)
	if kept, _ := n.counts(); kept == 0 {
		t.Error("nothing came from disk")
	}
	p.start()
	p.settled(1, 1)
	if sent := p.total(); sent != 0 {
		t.Errorf("%d resources were sent again", sent)
	}
	a.stop()
	n.forget()
	a.o.Node = func() []byte { return []byte{10, 1, 'x'} } // another id
	p.stop()
	a.start()
	if kept, _ := n.counts(); kept != 0 {
		t.Error("another node was given what was kept")
	}
	p.start()
	n.holds(p)
}

// TestThatThereIsNothingIsKeptToo: an agent that starts while the control plane is away gets an empty set at once, unless the
// control plane has never answered for the type.
func TestThatThereIsNothingIsKeptToo(t *testing.T) {
	p := newPlane(t)
	a, n := newOwnAgent(t, p, true)
	a.stop()
	if kept, _ := n.counts(); kept != 0 {
		t.Error("there is something before the control plane has said so")
	}
	p.start()
	a.start()
	rig.Eventually(t, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.answers == 0 {
			return errors.New("no answer")
		}
		return nil
	})
	p.settled(1, 1)
	p.stop()
	a.stop()
	n.forget()
	a.start()
	rig.Eventually(t, func() error {
		if kept, _ := n.counts(); kept != 1 {
			return fmt.Errorf("told %d times", kept)
		}
		return nil
	})
}

func TestWhatTheAgentRefusesIsToldAndNotKept(t *testing.T) {
	p := newPlane(t)
	p.fillNotes(3)
	p.start()
	a, n := newOwnAgent(t, p, true)
	n.holds(p)
	n.mu.Lock()
	n.refuse = "n1 66"
	n.mu.Unlock()
	p.set(noteType, "n1", 66)
	rig.Eventually(t, func() error {
		for _, s := range p.server.Status() {
			if s.Types[noteType].Rejected == "no such note, please" && s.Synced {
				return nil
			}
		}
		return errors.New("the refusal is not heard")
	})
	p.set(noteType, "n2", 5)
	p.stop()
	p.set(noteType, "n1", 1)
	a.stop()
	n.forget()
	a.start()
	p.set(noteType, "n1", 67)
	p.start()
	n.holds(p)
}

// recorder is a control plane that only records its requests.
type recorder struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	asked chan *discoveryv3.DeltaDiscoveryRequest
	end   chan struct{} // a token ends a stream
	open  atomic.Int32  // streams
}

// finish ends the stream, once there is one alone: the control plane hears in its own time that another one was closed.
func (r *recorder) finish(t *testing.T) {
	t.Helper()
	rig.Eventually(t, func() error {
		if n := r.open.Load(); n != 1 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
	r.end <- struct{}{}
}

func (r *recorder) DeltaAggregatedResources(wire discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	r.open.Add(1)
	defer r.open.Add(-1)
	in := make(chan *discoveryv3.DeltaDiscoveryRequest)
	go func() {
		defer close(in)
		for {
			m, err := wire.Recv()
			if err != nil {
				return
			}
			select {
			case in <- m:
			case <-wire.Context().Done():
				return
			}
		}
	}()
	for {
		select {
		case m, ok := <-in:
			if !ok {
				return nil
			}
			r.asked <- m
		case <-r.end:
			return errors.New("ended")
		}
	}
}

// TestTheLastReportIsSentOnEachStream: alone, with an Envoy, and after the stream was lost.
func TestTheLastReportIsSentOnEachStream(t *testing.T) {
	rec := &recorder{asked: make(chan *discoveryv3.DeltaDiscoveryRequest, 100), end: make(chan struct{})}
	l, server := bufconn.Listen(1<<16), grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, rec)
	over := make(chan error, 1)
	go func() { over <- server.Serve(l) }()
	defer func() { server.Stop(); <-over }()
	p := newPlane(t)
	a := makeAgent(t, p, false)
	a.o.Dial[0] = grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
	a.o.Node = func() []byte { return []byte{10, 1, 'x'} }
	a.start()
	next := func(want string) *discoveryv3.DeltaDiscoveryRequest {
		t.Helper()
		for {
			m := <-rec.asked
			if m.TypeUrl != noteType {
				continue
			}
			if m.ErrorDetail.GetMessage() != want || !slices.Equal(m.ResourceNamesSubscribe, []string{"app"}) {
				t.Fatalf("%v, want %q", m, want)
			}
			return m
		}
	}
	say := func(failure string) {
		t.Helper()
		report := relay.Report{Type: noteType, Names: []string{"app"}}
		if failure != "" {
			report.Failure = &statuspb.Status{Code: 13, Message: failure}
		}
		if err := a.relay.Report(report); err != nil {
			t.Fatal(err)
		}
	}
	say("is ill")
	if m := next("is ill"); m.Node.GetId() != "x" {
		t.Errorf("alone it speaks as %v", m.Node)
	}
	say("")
	next("")
	rec.finish(t)
	next("")
	e := newEnvoy(t, a)
	e.connect()
	next("")
	say("ill again")
	next("ill again")
	rec.finish(t)
	next("ill again")
	say("ill again") // said anew
	next("ill again")
}
