package lookup_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairway/internal/app/lookup"
)

// server is a name server on the loopback address, by UDP and TCP.
type server struct {
	mu    sync.Mutex
	rows  map[string][]string // by name and type: records in the words of zone files
	rcode int
	cut   bool // answers by UDP are cut off
	asked map[string]int
}

func (s *server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := q.Question[0].Name + " " + dns.TypeToString[q.Question[0].Qtype]
	s.asked[at]++
	a := new(dns.Msg)
	a.SetRcode(q, s.rcode)
	rows, has := s.rows[at]
	if !has && s.rcode == dns.RcodeSuccess {
		a.Rcode = dns.RcodeNameError
	}
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp && s.cut {
		a.Truncated = true
	} else {
		for _, row := range rows {
			r, err := dns.NewRR(row)
			if err != nil {
				panic(err)
			}
			a.Answer = append(a.Answer, r)
		}
	}
	_ = w.WriteMsg(a)
}

func (s *server) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// has gives a name records of a type ("lb.example.com. A").
func (s *server) has(at string, rows ...string) { s.set(func() { s.rows[at] = rows }) }

func serve(t *testing.T) (*server, string) {
	t.Helper()
	s := &server{rows: map[string][]string{}, asked: map[string]int{}}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*dns.Server{{Listener: tcp, Handler: s}, {PacketConn: udp, Handler: s}} {
		started := make(chan struct{})
		d.NotifyStartedFunc = func() { close(started) }
		go func() { _ = d.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = d.Shutdown() })
	}
	return s, tcp.Addr().String()
}

// told has the results of a resolver, in order.
type told chan string

func (c told) want(t *testing.T, want string) {
	t.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case got := <-c:
		if got != want {
			t.Fatalf("told is %q, want %q", got, want)
		}
	case <-timer.C:
		t.Fatalf("nothing is told, want %q", want)
	}
}

func run(t *testing.T, servers ...string) (*lookup.Resolver, told) {
	t.Helper()
	said := make(told, 2*lookup.Most)
	r := lookup.New(lookup.Options{
		Servers: func() ([]string, error) { return servers, nil }, Log: slog.New(slog.DiscardHandler), MinTTL: time.Millisecond,
		OnAnswer: func(host string, is lookup.Answer, has bool) {
			failing := ""
			if is.Failing != "" {
				failing = " failing"
			}
			said <- fmt.Sprintf("%s %t %s%s", host, has, is.Addresses, failing)
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, said
}

// names are wanted.
func names(all ...string) (out []lookup.Wanted) {
	for _, name := range all {
		out = append(out, lookup.Wanted{Key: name})
	}
	return out
}

// TestResolver: both families count, and changes of a name are followed. If the name servers do not answer, the last good answer
// stays.
func TestResolver(t *testing.T) {
	s, at := serve(t)
	s.has("lb.example.com. A", "lb.example.com. 0 A 192.0.2.2", "lb.example.com. 0 A 192.0.2.1", "lb.example.com. 0 A 127.0.0.1")
	s.has("lb.example.com. AAAA", "lb.example.com. 0 AAAA 2001:db8::1")
	r, said := run(t, at)
	r.Want(names("lb.example.com"), nil)
	said.want(t, "lb.example.com true 192.0.2.1,192.0.2.2,2001:db8::1")
	s.set(func() { delete(s.rows, "lb.example.com. AAAA") })
	said.want(t, "lb.example.com true 192.0.2.1,192.0.2.2")
	s.set(func() {
		s.rows["lb.example.com. A"] = []string{
			"lb.example.com. 0 CNAME x.example.net.", "x.example.net. 0 A 192.0.2.3", "stranger.example. 0 A 192.0.2.9",
		}
		s.cut = true // by TCP then
	})
	said.want(t, "lb.example.com true 192.0.2.3")
	s.set(func() { s.rcode = dns.RcodeServerFailure })
	said.want(t, "lb.example.com true 192.0.2.3 failing")
	s.set(func() { s.rcode = dns.RcodeSuccess })
	said.want(t, "lb.example.com true 192.0.2.3")
	r.Want(nil, []string{"lb.example.com"})
	said.want(t, "lb.example.com false ")
}

// TestLasting: an answer is asked for again when it has ended, not before.
func TestLasting(t *testing.T) {
	s, at := serve(t)
	s.has("lb.example.com. A", "lb.example.com. 3600 A 192.0.2.1")
	s.has("often.example.com. A", "often.example.com. 0 A 192.0.2.1")
	r, said := run(t, at)
	r.Want(names("lb.example.com"), nil)
	said.want(t, "lb.example.com true 192.0.2.1")
	r.Want(names("often.example.com"), nil)
	said.want(t, "often.example.com true 192.0.2.1")
	s.has("often.example.com. A", "often.example.com. 0 A 192.0.2.2")
	said.want(t, "often.example.com true 192.0.2.2")
	s.set(func() {
		if n := s.asked["lb.example.com. A"]; n != 1 {
			t.Errorf("it was asked for %d times", n)
		}
	})
}

// TestNextServer: if one name server does not answer, the next one is asked; an invalid name fails without addresses.
func TestNextServer(t *testing.T) {
	bad, first := serve(t)
	bad.set(func() { bad.rcode = dns.RcodeRefused })
	good, second := serve(t)
	good.has("lb.example.com. AAAA", "lb.example.com. 0 AAAA 2001:db8::1")
	r, said := run(t, first, second)
	r.Want(names("lb.example.com"), nil)
	said.want(t, "lb.example.com true 2001:db8::1")
	r.Want(names("none.example.com"), []string{"lb.example.com"})
	got := []string{<-said, <-said}
	slices.Sort(got)
	if want := []string{"lb.example.com false ", "none.example.com true  failing"}; !slices.Equal(got, want) {
		t.Errorf("told is %q, want %q", got, want)
	}
}

// TestMost: a name above the limit fails, and is looked up once there is room.
func TestMost(t *testing.T) {
	s, at := serve(t)
	var all []string
	for i := range lookup.Most + 1 {
		name := fmt.Sprintf("n%03d.example.com", i)
		all = append(all, name)
		s.has(name+". A", name+". 3600 A 192.0.2.1")
	}
	r, said := run(t, at)
	r.Want(names(all...), nil)
	last := all[lookup.Most]
	failed := 0
	for range all {
		if got := <-said; got == last+" true  failing" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d are told to be one too many", failed)
	}
	r.Want(nil, all[:1])
	said.want(t, all[0]+" false ")
	said.want(t, last+" true 192.0.2.1")
}

func TestServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nsearch x\n")
	if got, err := lookup.Servers(file); err != nil || !slices.Equal(got, []string{"192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"}) {
		t.Errorf("%q, %v", got, err)
	}
	write("search x\n")
	if got, err := lookup.Servers(file); err == nil {
		t.Errorf("no server is %q", got)
	}
}
