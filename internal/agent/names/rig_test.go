package names_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"fairway/internal/agent/names"
	nametable "fairway/internal/envoy/names"
	"fairway/test/rig"
)

// upstream is a fake name server. The test decides what it answers.
type upstream struct {
	mu   sync.Mutex
	asks []string // "udp name TYPE"
	say  func(network string, q *dns.Msg) *dns.Msg
}

func (u *upstream) handler(network string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		u.mu.Lock()
		u.asks = append(u.asks, fmt.Sprintf("%s %s %s", network, q.Question[0].Name, dns.TypeToString[q.Question[0].Qtype]))
		say := u.say
		u.mu.Unlock()
		if reply := say(network, q); reply != nil {
			_ = w.WriteMsg(reply) // the asker may have left
		}
	}
}

func (u *upstream) asked() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string{}, u.asks...)
}

// serve answers on both networks at an address until the test ends.
func (u *upstream) serve(t testing.TB, address string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for network, server := range map[string]*dns.Server{"udp": {PacketConn: packets}, "tcp": {Listener: stream}} {
		server.Handler = u.handler(network)
		began, over := make(chan struct{}), make(chan error, 1)
		server.NotifyStartedFunc = func() { close(began) }
		go func() { over <- server.ActivateAndServe() }()
		<-began
		t.Cleanup(func() {
			if err := server.Shutdown(); err != nil {
				t.Error(err)
			}
			<-over
		})
	}
}

// rr is a record from its text.
func rr(t testing.TB, text string) dns.RR {
	t.Helper()
	r, err := dns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// records answers with the records of the name and type asked for, and says that other names do not exist.
func records(t testing.TB, texts ...string) func(string, *dns.Msg) *dns.Msg {
	return func(_ string, q *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(q)
		for _, text := range texts {
			if r := rr(t, text); r.Header().Rrtype == q.Question[0].Qtype && strings.EqualFold(r.Header().Name, q.Question[0].Name) {
				m.Answer = append(m.Answer, r)
			}
		}
		if len(m.Answer) == 0 {
			m.Rcode = dns.RcodeNameError
			m.Ns = []dns.RR{rr(t, "test. 60 IN SOA ns.test. root.test. 1 1 1 1 60")}
		}
		return m
	}
}

// world is a server with its table, and name servers at 127.0.0.2, 127.0.0.3, … on one port.
type world struct {
	t       testing.TB
	o       names.Options
	table   *names.Table
	server  *names.Server
	address string
	now     *clock
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// freePort is a port that is free on 127.0.0.1 to 127.0.0.3, for both networks.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		l.Close()
		if free(port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

func free(port string) bool {
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			return false
		}
		l.Close()
		p, err := net.ListenPacket("udp", net.JoinHostPort(host, port))
		if err != nil {
			return false
		}
		p.Close()
	}
	return true
}

// newWorld starts a server that forwards to as many name servers. change may alter its options.
func newWorld(t testing.TB, conf string, change func(*names.Options), upstreams ...*upstream) *world {
	t.Helper()
	port := freePort(t)
	for i, u := range upstreams {
		host := fmt.Sprintf("127.0.0.%d", i+2)
		u.serve(t, net.JoinHostPort(host, port))
		conf += "nameserver " + host + "\n"
	}
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, table: names.NewTable("shop.svc.cluster.local"), now: &clock{now: time.Unix(1e9, 0)}}
	w.address = net.JoinHostPort("127.0.0.1", port)
	var number uint16
	_, _ = fmt.Sscan(port, &number)
	w.o = names.Options{
		Listen:     w.address,
		ResolvConf: file,
		Port:       number,
		Hold:       time.Millisecond,
		Timeout:    rig.Bound,
		Next:       rig.Bound,
		Now:        w.now.Now,
		Log:        slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&w.o)
	}
	w.start()
	return w
}

func (w *world) start() {
	w.t.Helper()
	s, err := names.New(w.o, w.table)
	if err != nil {
		w.t.Fatal(err)
	}
	w.server = s
	ctx, cancel := context.WithCancel(context.Background())
	up, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- s.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-over:
		cancel()
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			w.t.Error(err)
		}
	})
}

// has puts a name with its addresses into the table, as a resource of its own.
func (w *world) has(host string, ips ...string) {
	w.t.Helper()
	body := nametable.Encode([]nametable.Entry{{Host: host, IPs: ips}}).Body
	if err := w.table.Apply([]names.Resource{{Name: host, Body: body}}, nil); err != nil {
		w.t.Fatal(err)
	}
}

// ask asks over a network and returns the whole answer.
func (w *world) ask(network string, q *dns.Msg) *dns.Msg {
	w.t.Helper()
	c := dns.Client{Net: network, Timeout: rig.Bound, UDPSize: dns.MaxMsgSize}
	reply, _, err := c.Exchange(q, w.address)
	if err != nil {
		w.t.Fatalf("%s: %v", q.Question[0].Name, err)
	}
	return reply
}

func question(name string, typ uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, typ) }

// gets asks over UDP and gives code and answers in few words: "NOERROR A 10.0.0.1".
func (w *world) gets(name string, typ uint16) string {
	w.t.Helper()
	return brief(w.ask("udp", question(name, typ)))
}

func brief(m *dns.Msg) string {
	words := []string{dns.RcodeToString[m.Rcode]}
	for _, r := range m.Answer {
		switch r := r.(type) {
		case *dns.A:
			words = append(words, r.Hdr.Name+" A "+r.A.String())
		case *dns.AAAA:
			words = append(words, r.Hdr.Name+" AAAA "+r.AAAA.String())
		case *dns.CNAME:
			words = append(words, r.Hdr.Name+" CNAME "+r.Target)
		default:
			words = append(words, r.String())
		}
	}
	return strings.Join(words, " ")
}

// metric is the value of a counter.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(w.server.Collectors()...)
	all, err := reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == name {
			return m.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0
}
