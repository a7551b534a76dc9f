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
)

// benchServer serves the mesh on loopback to a fleet of clients that is a process of its own, so that the CPU of this
// one is the server's.
type benchServer struct {
	b    *testing.B
	lib  *Library
	srv  *Server
	turn uint64
	in   io.Writer
	out  *bufio.Scanner
}

func newBenchServer(b *testing.B, clients int) *benchServer {
	b.Helper()
	s := &benchServer{b: b, lib: NewLibrary()}
	s.srv = NewServer(s.lib, Options{}, &recorder{})
	s.turn = 1
	var attach []Attach
	for i := range clients {
		at := &Attachment{Stacks: map[string][]ShelfKey{}}
		for _, typ := range allTypes {
			at.Stacks[typ] = []ShelfKey{"all"}
		}
		attach = append(attach, Attach{Proxy: ProxyID("p" + strconv.Itoa(i)), To: at})
	}
	s.lib.Publish(1, benchMesh(), attach...)
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
			before := liveHeap()
			for b.Loop() {
				start := cpu()
				s.order("fresh")
				s.wait()
				spent := cpu() - start
				b.ReportMetric(float64(spent.Microseconds())/float64(clients*benchHeld), "µs-cpu/resource")
				b.ReportMetric(spent.Seconds(), "s-cpu")
				b.ReportMetric(float64(liveHeap()-before)/float64(clients*benchHeld), "heap-B/held")
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
		start := cpu()
		got := s.order("again")
		s.wait()
		b.ReportMetric((cpu() - start).Seconds(), "s-cpu")
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
	start := cpu()
	for b.Loop() {
		s.turn++
		r := benchHost(7, s.turn)
		s.lib.Publish(s.turn, []Change{{Shelf: "all", Type: r.Type(), Name: r.Name, Resource: r}})
		s.wait()
	}
	b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N)/1000, "ms-cpu/op")
}
