package planes_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"fairway/internal/agent/planes"
)

// plane is a server behind an address that can hang: then it takes connections and bytes, and answers nothing.
type plane struct {
	server *grpc.Server
	front  net.Listener

	mu    sync.Mutex
	hangs bool
	all   []net.Conn
}

// newPlane serves streams that stay open.
func newPlane(t *testing.T) *plane {
	t.Helper()
	behind, front := listen(t), listen(t)
	p := &plane{front: front, server: grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method != stream {
			return nil
		}
		if err := s.SendHeader(nil); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}))}
	var g sync.WaitGroup
	g.Go(func() { _ = p.server.Serve(behind) })
	g.Go(func() {
		for {
			c, err := front.Accept()
			if err != nil {
				return
			}
			g.Go(func() { p.pass(c, behind.Addr().String()) })
		}
	})
	t.Cleanup(func() { p.kill(); g.Wait() })
	return p
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const stream = "/test/Stream"

func (p *plane) address() string { return p.front.Addr().String() }

// pass copies between a client and the server, as long as the plane does not hang.
func (p *plane) pass(client net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.all = append(p.all, client, server)
	p.mu.Unlock()
	var g sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		g.Go(func() {
			defer way[1].Close()
			buffer := make([]byte, 4096)
			for {
				n, err := way[0].Read(buffer)
				if err != nil {
					return
				}
				p.mu.Lock()
				hangs := p.hangs
				p.mu.Unlock()
				if hangs {
					continue
				}
				if _, err := way[1].Write(buffer[:n]); err != nil {
					return
				}
			}
		})
	}
	g.Wait()
}

func (p *plane) hang(on bool) { p.mu.Lock(); defer p.mu.Unlock(); p.hangs = on }

func (p *plane) kill() {
	p.front.Close()
	p.server.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		c.Close()
	}
}

// client is what an agent has: a stream that is opened again when it ends.
type client struct {
	*planes.Planes
	conn *grpc.ClientConn
}

func newClient(t *testing.T, addresses []string) *client {
	t.Helper()
	c := &client{Planes: planes.New(addresses, slog.New(slog.DiscardHandler))}
	conn, err := grpc.NewClient(c.Target(),
		append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())...)
	if err != nil {
		t.Fatal(err)
	}
	c.conn = conn
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { c.Watch(ctx, conn) })
	t.Cleanup(func() { cancel(); g.Wait(); conn.Close() })
	return c
}

// stream opens one and returns its address, and a channel that is closed with it.
func (c *client) stream(t *testing.T) (address string, ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, stream, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Header(); err != nil {
		cancel()
		return "", nil
	}
	over := make(chan struct{})
	go func() { defer close(over); defer cancel(); _ = s.RecvMsg(nil) }()
	p, _ := peer.FromContext(s.Context())
	return p.Addr.String(), over
}

// TestMoves: a client whose control plane is gone, or hangs, has a stream to another one within two seconds, although a third one hangs
// too. The bound here is longer: this machine may be busy.
func TestMoves(t *testing.T) {
	for name, fail := range map[string]func(*plane){"gone": (*plane).kill, "hangs": func(p *plane) { p.hang(true) }} {
		t.Run(name, func(t *testing.T) {
			all := map[string]*plane{}
			var addresses []string
			for range 3 {
				p := newPlane(t)
				all[p.address()] = p
				addresses = append(addresses, p.address())
			}
			c := newClient(t, addresses)
			first, ended := c.stream(t)
			other := ""
			for a, p := range all {
				if a != first && other == "" {
					other = a
					p.hang(true)
				}
			}
			began := time.Now()
			fail(all[first])
			<-ended
			second, _ := c.stream(t)
			if second == first || second == other || second == "" {
				t.Fatalf("from %s to %s; %s hangs", first, second, other)
			}
			took := time.Since(began)
			t.Log("moved after", took)
			if took > 8*time.Second {
				t.Errorf("moved after %s", took)
			}
		})
	}
}

// TestLeave: a control plane that answers, but does not serve, is left for another one.
func TestLeave(t *testing.T) {
	a, b := newPlane(t), newPlane(t)
	c := newClient(t, []string{a.address(), b.address()})
	first, ended := c.stream(t)
	c.Leave(context.Canceled)
	<-ended
	if second, _ := c.stream(t); second == first {
		t.Errorf("%s is left for itself", first)
	}
	if c.String() != a.address()+","+b.address() {
		t.Errorf("shown as %s", c)
	}
}

// TestSpread: clients begin with each of the control planes.
func TestSpread(t *testing.T) {
	count := map[string]int{}
	for range 300 {
		count[planes.Shuffled([]string{"a", "b", "c"})[0]]++
	}
	for _, of := range []string{"a", "b", "c"} {
		if count[of] < 50 {
			t.Errorf("%v of 300 begin with %s", count, of)
		}
	}
}

// TestAlone: with one address the connection is gRPC's own, and it is never left.
func TestAlone(t *testing.T) {
	a := newPlane(t)
	c := newClient(t, []string{a.address()})
	if c.Target() != a.address() || c.DialOptions() != nil {
		t.Errorf("one address has a resolver: %s", c.Target())
	}
	_, ended := c.stream(t)
	c.Leave(context.Canceled)
	select {
	case <-ended:
		t.Error("the only control plane was left")
	default:
	}
}
