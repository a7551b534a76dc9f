package mcpxds

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/config"
	"fairway/internal/mcpwire"
)

const entries = "istio/networking/v1alpha3/serviceentries"

// pusher is the other side, which connects: what it does with a stream a test says.
type pusher struct {
	t      *testing.T
	conn   *grpc.ClientConn
	source *Pushed
	stop   context.CancelFunc // ends the source
	ended  chan error
}

// pushes has a source run that is pushed, until the test ends.
func pushes(t *testing.T, o Options, p pace) (*pusher, *sink) {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewPushed("mcp-sink://other", o, decoder, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.pace = p
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(1<<20), grpc.WaitForHandlers(true))
	g.RegisterService(&grpc.ServiceDesc{ServiceName: mcpwire.SinkService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: mcpwire.Stream, ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, w grpc.ServerStream) error { return s.Serve(w) },
	}}}, s)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	out := newSink()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, out) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return &pusher{t, conn, s, stop, ended}, out
}

// pushing is a stream of a pusher's.
type pushing struct {
	t      *testing.T
	wire   grpc.ClientStream
	cancel context.CancelFunc
	heard  []*mcpwire.Request // about ServiceEntries, while begin looked for others
}

// connect opens a stream, which begins with a message about nothing, as those of Istio do.
func (p *pusher) connect() *pushing {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	p.t.Cleanup(cancel)
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	wire, err := p.conn.NewStream(ctx, both, "/"+mcpwire.SinkService+"/"+mcpwire.Stream)
	if err != nil {
		p.t.Fatal(err)
	}
	out := &pushing{t: p.t, wire: wire, cancel: cancel}
	out.send(&mcpwire.Resources{})
	return out
}

func (p *pushing) send(r *mcpwire.Resources) {
	p.t.Helper()
	if err := p.wire.SendMsg(r.Message()); err != nil && !errors.Is(err, io.EOF) { // why it is over, the other side says
		p.t.Fatal(err)
	}
}

// next returns the next request.
func (p *pushing) next() (*mcpwire.Request, error) {
	m := &mcpwire.Message{}
	if err := p.wire.RecvMsg(m); err != nil {
		return nil, err
	}
	return mcpwire.ParseRequest(m)
}

// until returns the next request about a collection that is one of some form. Requests about others are passed over.
func (p *pushing) until(what string, is func(*mcpwire.Request) bool) *mcpwire.Request {
	p.t.Helper()
	for {
		var r *mcpwire.Request
		var err error
		if len(p.heard) > 0 {
			r, p.heard = p.heard[0], p.heard[1:]
		} else if r, err = p.next(); err != nil {
			p.t.Fatalf("%s: %v", what, err)
		}
		if r.Collection == "" {
			p.t.Error("a message about nothing is answered")
		}
		if r.Collection == entries && is(r) {
			return r
		}
	}
}

// begin answers the requests at the start: for ServiceEntries with some resources, for all other types with nothing. It returns which
// versions of ServiceEntries the request says are held.
func (p *pushing) begin(incremental bool, resources ...[]byte) (held map[string]string) {
	p.t.Helper()
	for {
		r, err := p.next()
		if err != nil {
			p.t.Fatal(err)
		}
		if r.Nonce != "" {
			if r.Collection == entries {
				p.heard = append(p.heard, r)
			}
			continue
		}
		out := &mcpwire.Resources{Collection: r.Collection, Nonce: "first", Incremental: incremental}
		if r.Collection == entries {
			out.Resources, held = resources, versions(p.t, r)
		}
		p.send(out)
		if r.Collection == mcpwire.MeshCollection {
			return held
		}
	}
}

// ended returns the error that the stream ends with.
func (p *pushing) ended() error {
	for {
		if _, err := p.next(); err != nil {
			return err
		}
	}
}

// versions are those that a request says are held.
func versions(t *testing.T, r *mcpwire.Request) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, one := range r.Initial {
		var pair [3]string
		if err := mcpwire.Fields(one, func(field protowire.Number, value []byte, _ uint64) { pair[field] = string(value) }); err != nil {
			t.Fatal(err)
		}
		out[pair[1]] = pair[2]
	}
	return out
}

func pushedEntry(t *testing.T, name, version, host string) []byte {
	return versioned(t, name, version, host).Value
}

// TestPushed: pushed objects are taken and acknowledged, invalid ones refused by name; after a break the source learns which versions are
// held, and need send nothing again; meanwhile all of it stays, and is stale.
func TestPushed(t *testing.T) {
	p, out := pushes(t, Options{}, prompt)
	out.until(t, "the source is stale: no client has come", func() bool { return strings.Contains(out.stale, "no client that may push") })
	s := p.connect()
	if held := s.begin(true, pushedEntry(t, "shop/a", "1", "a.com"), pushedEntry(t, "shop/bad", "1", "")); len(held) > 0 {
		t.Errorf("at first %v is held", held)
	}
	r := s.until("an answer", func(r *mcpwire.Request) bool { return r.Nonce == "first" })
	if why := string(r.Error); !strings.Contains(why, "shop/bad") || strings.Contains(why, "shop/a") || r.Sink == "" || !r.Incremental {
		t.Errorf("what is not valid is refused by %+v", r)
	}
	out.until(t, "the good one is there", func() bool {
		return out.synced && out.has("shop/a") && len(out.problems) == 1 && out.stale == ""
	})
	s.send(&mcpwire.Resources{
		Collection: entries, Nonce: "second", Incremental: true, Removed: []string{"shop/bad", "shop/never"},
		Resources: [][]byte{pushedEntry(t, "shop/b", "7", "b.com")},
	})
	if r := s.until("an answer", func(r *mcpwire.Request) bool { return r.Nonce == "second" }); r.Error != nil {
		t.Errorf("what is valid is refused: %s", r.Error)
	}
	out.until(t, "both are there", func() bool { return out.has("shop/a", "shop/b") && len(out.problems) == 0 })
	s.cancel()
	out.until(t, "it is stale", func() bool { return out.stale == "mcp-sink://other: it went away" && out.has("shop/a", "shop/b") })
	s = p.connect()
	if held := s.begin(true); len(held) != 2 || held["shop/a"] != "1" || held["shop/b"] != "7" {
		t.Errorf("after a break %v is held", held)
	}
	out.until(t, "it is fresh", func() bool { return out.stale == "" && out.has("shop/a", "shop/b") })
	s.send(&mcpwire.Resources{Collection: entries, Nonce: "whole", Resources: [][]byte{pushedEntry(t, "shop/b", "7", "b.com")}})
	out.until(t, "what a whole state leaves out is gone", func() bool { return out.has("shop/b") })
	if err := s.wire.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := s.ended(); !errors.Is(err, io.EOF) {
		t.Errorf("a source that has said all is answered with %v", err)
	}
}

// TestPushedOnce: a stream that comes takes the place of the one before, which says why it ends; nothing is stale in between.
func TestPushedOnce(t *testing.T) {
	p, out := pushes(t, Options{}, prompt)
	first := p.connect()
	first.begin(true, pushedEntry(t, "shop/a", "1", "a.com"))
	out.until(t, "it is there", func() bool { return out.synced && out.has("shop/a") && out.stale == "" })
	out.mu.Lock()
	out.stales = nil
	out.mu.Unlock()
	second := p.connect()
	if err := first.ended(); status.Code(err) != codes.Aborted {
		t.Errorf("the older stream ends with %v", err)
	}
	if held := second.begin(true, pushedEntry(t, "shop/b", "1", "b.com")); len(held) != 1 {
		t.Errorf("the newer one is told that %v is held", held)
	}
	out.until(t, "both are there", func() bool { return out.has("shop/a", "shop/b") })
	out.mu.Lock()
	defer out.mu.Unlock()
	if len(out.stales) > 0 {
		t.Errorf("it was stale: %q", out.stales)
	}
}

// TestPushedNoMore: once the source is to end its stream ends, and no other is taken.
func TestPushedNoMore(t *testing.T) {
	p, out := pushes(t, Options{}, prompt)
	s := p.connect()
	s.begin(true)
	out.until(t, "it is there", func() bool { return out.synced })
	p.stop()
	if err := s.ended(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	p.ended <- nil
	if err := p.connect().ended(); status.Code(err) != codes.Unavailable {
		t.Errorf("another one ends with %v", err)
	}
}

// TestPushedServices: of what a source pushes as services, the collection alone is asked for that holds those.
func TestPushedServices(t *testing.T) {
	p, _ := pushes(t, Options{Services: true}, prompt)
	s := p.connect()
	var asked []string
	for !slices.Contains(asked, mcpwire.MeshCollection) {
		r, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if r.Nonce == "" {
			asked = append(asked, r.Collection)
			s.send(&mcpwire.Resources{Collection: r.Collection, Nonce: "1"})
		}
	}
	if want := []string{mcpwire.SyntheticEntries, mcpwire.MeshCollection}; !slices.Equal(asked, want) {
		t.Errorf("%v is asked for, want %v", asked, want)
	}
}

// TestPushedFaults: whatever a source does its stream alone ends, and says why; nothing is taken away, and another one is taken.
func TestPushedFaults(t *testing.T) {
	hasty := prompt
	hasty.answer = 30 * time.Millisecond
	raw := func(text string) *mcpwire.Message {
		m := &mcpwire.Message{}
		m.ProtoReflect().SetUnknown([]byte(text))
		return m
	}
	for _, c := range []struct {
		name string
		pace pace
		sent []*mcpwire.Message
		code codes.Code
		says string
	}{
		{"silent", hasty, nil, codes.FailedPrecondition, "did not answer within 30ms"},
		{"about nothing", hasty, []*mcpwire.Message{
			(&mcpwire.Resources{Nonce: "1"}).Message(),
		}, codes.FailedPrecondition, "did not answer"},
		{"large", prompt, []*mcpwire.Message{
			(&mcpwire.Resources{Collection: entries, Resources: [][]byte{make([]byte, 2<<20)}}).Message(),
		}, codes.ResourceExhausted, "--maxRequestBytes"},
		{"malformed", prompt, []*mcpwire.Message{(&mcpwire.Resources{Collection: "\xff"}).Message()}, codes.InvalidArgument, "not text"},
		{"a long nonce", prompt, []*mcpwire.Message{
			(&mcpwire.Resources{Collection: entries, Nonce: strings.Repeat("n", 2000)}).Message(),
		}, codes.InvalidArgument, "2000 bytes"},
		{"cut short", prompt, []*mcpwire.Message{raw("\x12\x20short")}, codes.Internal, "cannot parse"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, out := pushes(t, Options{}, c.pace)
			s := p.connect()
			for _, m := range c.sent {
				if err := s.wire.SendMsg(m); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.ended(); status.Code(err) != c.code {
				t.Errorf("the stream ends with %v, want %s", err, c.code)
			}
			out.until(t, "it is said why", func() bool {
				return strings.HasPrefix(out.stale, "mcp-sink://other: ") && strings.Contains(out.stale, c.says)
			})
			if c.pace == prompt {
				p.connect().begin(true, pushedEntry(t, "shop/a", "1", "a.com"))
				out.until(t, "another one is taken", func() bool { return out.synced && out.has("shop/a") })
			}
		})
	}
}

// TestPushedDeaf: a source that sends much and reads nothing delays only itself.
func TestPushedDeaf(t *testing.T) {
	hasty := prompt
	hasty.read = 50 * time.Millisecond
	p, out := pushes(t, Options{}, hasty)
	s := p.connect()
	s.begin(true, pushedEntry(t, "shop/a", "1", "a.com"))
	out.until(t, "it is there", func() bool { return out.synced && out.has("shop/a") })
	said, ended := &mcpwire.Resources{Collection: entries, Nonce: strings.Repeat("n", 1000), Incremental: true}, make(chan struct{})
	go func() {
		defer close(ended)
		for s.wire.SendMsg(said.Message()) == nil { // until too much waits to be read
		}
	}()
	out.until(t, "the reason is reported", func() bool {
		return strings.Contains(out.stale, "has not read requests for 50ms") && out.has("shop/a")
	})
	s.cancel()
	<-ended
	p.connect().begin(true)
	out.until(t, "another one is taken", func() bool { return out.stale == "" })
}

// TestPushedUnknown: a source that leaves its stream when it is asked for a collection that it does not know, as Istio's do, is read all
// the same: it is asked for less and less.
func TestPushedUnknown(t *testing.T) {
	p, out := pushes(t, Options{}, prompt)
	knows := func(collection string) bool { return mcpwire.Early(collection) || collection == mcpwire.MeshCollection }
	streams, asked := 0, map[string]int{}
	for all := false; !all; streams++ {
		if streams > 100 {
			t.Fatalf("it is asked for %v again and again", asked)
		}
		s := p.connect()
		for {
			r, err := s.next()
			if err != nil {
				t.Fatal(err)
			}
			if r.Nonce != "" {
				continue
			}
			if !knows(r.Collection) {
				asked[r.Collection]++
				break // and the stream stays as it is
			}
			a := &mcpwire.Resources{Collection: r.Collection, Nonce: "1"}
			if r.Collection == entries {
				a.Resources = [][]byte{pushedEntry(t, "shop/a", "1", "a.com")}
			}
			s.send(a)
			if all = r.Collection == mcpwire.MeshCollection; all {
				break
			}
		}
	}
	out.until(t, "it is there", func() bool { return out.synced && out.has("shop/a") && out.stale == "" })
	for collection, times := range asked {
		if times != mostEnds {
			t.Errorf("it is asked %d times for %s", times, collection)
		}
	}
	if len(asked) == 0 {
		t.Error("it was asked for nothing that it does not know")
	}
}
