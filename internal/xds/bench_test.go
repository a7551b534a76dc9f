package xds

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// The fleet of the benchmarks: what a sidecar of a mesh with 1,000 services sees, a fifth of which have two subsets.
const (
	benchClusters = 1400
	benchHosts    = 1000
	benchHeld     = 2*benchClusters + benchHosts + 1
)

func benchName(i int) string {
	return fmt.Sprintf("outbound|80||svc-%04d.default.svc.cluster.local", i)
}

// benchMesh is the whole mesh, with bodies of the sizes that Envoy's messages have.
func benchMesh() []Change {
	body := func(n int, i int) []byte { return append(make([]byte, n), fmt.Sprint(i)...) }
	out := make([]Change, 0, benchHeld+1)
	add := func(r *Resource) {
		out = append(out, Change{Shelf: "all", Type: r.Type(), Name: r.Name, Resource: r})
	}
	for i := range benchClusters {
		name := benchName(i)
		add(NewResource(ClusterType, name, uint64(i)+1, body(500, i), ResourceOptions{Load: name}))
		add(NewResource(EndpointType, name, uint64(i)+1, body(450, i), ResourceOptions{}))
	}
	part := &Part{MemberType: VirtualHostType, MemberPrefix: "80/", Field: 2}
	add(NewResource(RouteType, "80", 1, body(200, 0), ResourceOptions{Bare: part}))
	add(NewResource(ListenerType, "0.0.0.0_80", 1, body(900, 0), ResourceOptions{}))
	for i := range benchHosts {
		add(benchHost(i, 1))
	}
	return out
}

func benchHost(i int, version uint64) *Resource {
	return NewResource(VirtualHostType, fmt.Sprintf("80/svc-%04d.default.svc.cluster.local:80", i), version,
		append(make([]byte, 350), fmt.Sprint(version)...), ResourceOptions{Needs: []string{benchName(i)}})
}

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

// cpu returns what this process has used so far.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
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

// BenchmarkHeld measures what a stream keeps of each resource that its client holds.
func BenchmarkHeld(b *testing.B) {
	lib := NewLibrary()
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []ShelfKey{"all"}
	}
	lib.Publish(1, benchMesh(), Attach{Proxy: "p", To: at})
	w := lib.open("p")
	for b.Loop() {
		const streams = 50
		before := liveHeap()
		all := make([]*machine, streams)
		for i := range all {
			all[i] = newMachine(true, limits{bytes: 4 << 20, names: 100_000, window: 16})
			lib.read(w, func(v *view) { syncOnce(b, all[i], v) })
			all[i].events = nil
		}
		b.ReportMetric(float64(liveHeap()-before)/(streams*benchHeld), "B/held")
		runtime.KeepAlive(all)
	}
}

func BenchmarkMachineFirstSync(b *testing.B) {
	lib := NewLibrary()
	at := &Attachment{Stacks: map[string][]ShelfKey{}}
	for _, typ := range allTypes {
		at.Stacks[typ] = []ShelfKey{"all"}
	}
	lib.Publish(1, benchMesh(), Attach{Proxy: "p", To: at})
	w := lib.open("p")
	b.ReportAllocs()
	for b.Loop() {
		m := newMachine(true, limits{bytes: 4 << 20, names: 100_000, window: 16})
		lib.read(w, func(v *view) { syncOnce(b, m, v) })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchHeld, "ns/resource")
}

// syncOnce asks a machine for everything, as Envoy does, and ACKs it.
func syncOnce(b *testing.B, m *machine, v *view) {
	ask := func(typ string, names ...string) {
		if err := m.receive(v, &request{delta: true, typ: typ, subscribe: names}); err != nil {
			b.Fatal(err)
		}
		for r := m.next(v); r != nil; r = m.next(v) {
			if err := m.receive(v, &request{delta: true, typ: r.typ, nonce: m.subs[r.typ].sent.Nonce}); err != nil {
				b.Fatal(err)
			}
		}
	}
	var names []string
	v.stack(EndpointType).each(func(e *entry) { names = append(names, e.text) })
	ask(ClusterType)
	ask(EndpointType, names...)
	ask(ListenerType)
	ask(RouteType, "80")
	ask(VirtualHostType)
	if !m.synced() {
		b.Fatal("not synced")
	}
}
