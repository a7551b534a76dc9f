package xds

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"fairway/internal/xds/library"
	"fairway/internal/xds/xdstest"
)

// benchServer serves the mesh on loopback to a fleet of clients that is a process of its own, so that the CPU of this
// one is the server's.
type benchServer struct {
	b    *testing.B
	lib  *library.Library
	srv  *Server
	turn uint64
	in   io.Writer
	out  *bufio.Scanner
}

func newBenchServer(b *testing.B, clients int) *benchServer {
	b.Helper()
	s := &benchServer{b: b, lib: library.New()}
	s.srv = NewServer(s.lib, Options{}, &recorder{})
	s.turn = 1
	var attach []library.Attach
	for i := range clients {
		at := &library.Attachment{Stacks: map[string][]library.ShelfKey{}}
		for _, typ := range allTypes {
			at.Stacks[typ] = []library.ShelfKey{"all"}
		}
		attach = append(attach, library.Attach{Proxy: library.ProxyID("p" + strconv.Itoa(i)), To: at})
	}
	s.lib.Publish(1, xdstest.Mesh(), attach...)
	g := grpc.NewServer(s.srv.GRPC()...)
	s.srv.Register(g)
	wire, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = g.Serve(wire) }()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchFleet$")
	cmd.Env = append(os.Environ(), "XDS_FLEET="+wire.Addr().String(), "XDS_CLIENTS="+strconv.Itoa(clients))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.in, s.out = in, bufio.NewScanner(out)
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		g.Stop()
		s.srv.Close()
	})
	return s
}

// order has the fleet do something, and waits until it has.
func (s *benchServer) order(what string) string {
	s.b.Helper()
	if _, err := fmt.Fprintln(s.in, what); err != nil {
		s.b.Fatal(err)
	}
	for s.out.Scan() {
		if line, ok := strings.CutPrefix(s.out.Text(), "fleet: "); ok {
			return line
		}
	}
	s.b.Fatal("the fleet is gone")
	return ""
}

func (s *benchServer) wait() {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := s.srv.Wait(ctx, s.turn); err != nil {
		s.b.Fatal(err)
	}
}

func BenchmarkFirstSync(b *testing.B) {
	for _, clients := range []int{100, 500} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			s := newBenchServer(b, clients)
			before := xdstest.LiveHeap()
			for b.Loop() {
				start := xdstest.CPU()
				s.order("fresh")
				s.wait()
				spent := xdstest.CPU() - start
				b.ReportMetric(float64(spent.Microseconds())/float64(clients*xdstest.MeshResources), "µs-cpu/resource")
				b.ReportMetric(spent.Seconds(), "s-cpu")
				b.ReportMetric(float64(xdstest.LiveHeap()-before)/float64(clients*xdstest.MeshResources), "heap-B/held")
			}
		})
	}
}

func BenchmarkReconnectUnchanged(b *testing.B) {
	const clients = 100
	s := newBenchServer(b, clients)
	s.order("fresh")
	s.wait()
	for b.Loop() {
		start := xdstest.CPU()
		got := s.order("again")
		s.wait()
		b.ReportMetric((xdstest.CPU() - start).Seconds(), "s-cpu")
		if got != "0 resources" {
			b.Errorf("a reconnecting fleet was sent %s", got)
		}
	}
}

func BenchmarkOneChange(b *testing.B) {
	const clients = 100
	s := newBenchServer(b, clients)
	s.order("fresh")
	s.wait()
	b.ReportAllocs()
	start := xdstest.CPU()
	for b.Loop() {
		s.turn++
		r := xdstest.MeshHost(7, s.turn)
		s.lib.Publish(s.turn, []library.Change{{Shelf: "all", Type: r.Type(), Name: r.Name, Resource: r}})
		s.wait()
	}
	b.ReportMetric(float64((xdstest.CPU()-start).Microseconds())/float64(b.N)/1000, "ms-cpu/op")
}
