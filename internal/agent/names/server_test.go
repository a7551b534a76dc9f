package names_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"fairway/internal/agent/names"
	nametable "fairway/internal/envoy/names"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamesOfTheMesh(t *testing.T) {
	u := &upstream{say: records(t, "web.test. 60 IN A 192.0.2.1", "a.wild.example.com. 60 IN MX 10 mail.test.")}
	w := newWorld(t, "search shop.svc.cluster.local svc.cluster.local corp.test\noptions ndots:5\n", nil, u)
	w.has("reviews.shop.svc.cluster.local", "10.96.0.1", "fd00::1")
	w.has("ratings.other.svc.cluster.local", "10.96.0.2")
	w.has("db.example.com", "240.240.0.1")
	w.has("*.wild.example.com", "240.240.0.2")
	w.has("*.deep.wild.example.com", "240.240.0.3")
	w.has("db-0.db.shop.svc.cluster.local", "10.0.0.7")
	for _, c := range []struct {
		name string
		typ  uint16
		want string
	}{
		{"reviews.shop.svc.cluster.local.", dns.TypeA, "NOERROR reviews.shop.svc.cluster.local. A 10.96.0.1"},
		{"Reviews.Shop.SVC.cluster.local.", dns.TypeA, "NOERROR Reviews.Shop.SVC.cluster.local. A 10.96.0.1"},
		{"reviews.shop.svc.cluster.local.", dns.TypeAAAA, "NOERROR reviews.shop.svc.cluster.local. AAAA fd00::1"},
		{"reviews.", dns.TypeA, "NOERROR reviews. A 10.96.0.1"},
		{"reviews.shop.", dns.TypeA, "NOERROR reviews.shop. A 10.96.0.1"},
		{"reviews.shop.svc.", dns.TypeA, "NOERROR reviews.shop.svc. A 10.96.0.1"},
		{"ratings.", dns.TypeA, "NXDOMAIN"},
		{"ratings.other.", dns.TypeA, "NOERROR ratings.other. A 10.96.0.2"},
		{"ratings.other.shop.svc.cluster.local.", dns.TypeA,
			"NOERROR ratings.other.shop.svc.cluster.local. CNAME ratings.other.svc.cluster.local. " +
				"ratings.other.svc.cluster.local. A 10.96.0.2"},
		{
			"db.example.com.shop.svc.cluster.local.", dns.TypeA,
			"NOERROR db.example.com.shop.svc.cluster.local. CNAME db.example.com. db.example.com. A 240.240.0.1",
		},
		{"db.example.com.corp.test.", dns.TypeA, "NOERROR db.example.com.corp.test. CNAME db.example.com. db.example.com. A 240.240.0.1"},
		{"db.example.com.shop.svc.cluster.local.", dns.TypeAAAA, "NOERROR"},
		{"db.example.com.", dns.TypeAAAA, "NOERROR"},
		{"db.example.com.", dns.TypeHTTPS, "NOERROR"},
		{"a.wild.example.com.", dns.TypeA, "NOERROR a.wild.example.com. A 240.240.0.2"},
		{"a.b.wild.example.com.", dns.TypeA, "NOERROR a.b.wild.example.com. A 240.240.0.2"},
		{"a.deep.wild.example.com.", dns.TypeA, "NOERROR a.deep.wild.example.com. A 240.240.0.3"},
		{"wild.example.com.", dns.TypeA, "NXDOMAIN"},
		{
			"a.wild.example.com.corp.test.", dns.TypeA,
			"NOERROR a.wild.example.com.corp.test. CNAME a.wild.example.com. a.wild.example.com. A 240.240.0.2",
		},
		{"db-0.db.", dns.TypeA, "NOERROR db-0.db. A 10.0.0.7"},
		{"web.test.", dns.TypeA, "NOERROR web.test. A 192.0.2.1"},
		{"nobody.test.", dns.TypeA, "NXDOMAIN"},
		{"a.wild.example.com.", dns.TypeMX, "NOERROR a.wild.example.com.\t60\tIN\tMX\t10 mail.test."},
	} {
		if got := w.gets(c.name, c.typ); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.name, dns.TypeToString[c.typ], got, c.want)
		}
		if got := brief(w.ask("tcp", question(c.name, c.typ))); got != c.want {
			t.Errorf("%s %s over TCP: got %q, want %q", c.name, dns.TypeToString[c.typ], got, c.want)
		}
	}
	for _, ask := range u.asked() {
		if strings.Contains(ask, "AAAA") || strings.Contains(ask, "db.example.com") {
			t.Errorf("a name of the mesh was asked for outside: %s", ask)
		}
	}
	m := w.ask("udp", question("reviews.", dns.TypeA))
	if ttl := m.Answer[0].Header().Ttl; ttl != 30 || !m.Authoritative {
		t.Errorf("TTL %d, want 30; authoritative %t", ttl, m.Authoritative)
	}
}

func TestChangedNames(t *testing.T) {
	w := newWorld(t, "", nil, &upstream{say: records(t)})
	w.has("a.example.com", "10.0.0.1")
	w.has("b.example.com", "10.0.0.2", "no address", "10.0.0.3")
	w.has("a.example.com", "10.0.0.9")
	if got := w.gets("a.example.com.", dns.TypeA); got != "NOERROR a.example.com. A 10.0.0.9" {
		t.Error(got)
	}
	bad := names.Resource{Name: "c.example.com", Body: []byte{0xff}}
	good := names.Resource{
		Name: "a.example.com",
		Body: nametable.Encode([]nametable.Entry{{Host: "a.example.com", IPs: []string{"10.0.0.8"}}}).Body,
	}
	if err := w.table.Apply([]names.Resource{good, bad}, []string{"b.example.com"}); err == nil ||
		!strings.Contains(err.Error(), "c.example.com") {
		t.Errorf("%v", err)
	}
	if got := w.gets("a.example.com.", dns.TypeA); got != "NOERROR a.example.com. A 10.0.0.9" {
		t.Errorf("half of what cannot be read was taken: %s", got)
	}
	if err := w.table.Apply(nil, []string{"a.example.com"}); err != nil {
		t.Fatal(err)
	}
	if got := w.gets("a.example.com.", dns.TypeA); got != "NXDOMAIN" {
		t.Error(got)
	}
	if got := w.table.Names(); len(got) != 1 || got[0].Host != "b.example.com" || len(got[0].Addresses) != 2 {
		t.Errorf("%v", got)
	}
	// a whole table in one resource, and a name that the resource itself has, are what other control planes send
	both := nametable.Encode(
		[]nametable.Entry{{Host: "x.example.com", IPs: []string{"10.1.0.1"}}, {Host: "b.example.com", IPs: []string{"10.1.0.2"}}}).Body
	own := append([]byte{0x12, 10, 0x0a, 8}, "10.1.0.3"...)
	if err := w.table.Apply([]names.Resource{{Name: "all", Body: both}, {Name: "y.example.com", Body: own}}, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"x.example.com.": "A 10.1.0.1",
		"b.example.com.": "A 10.1.0.2",
		"y.example.com.": "A 10.1.0.3",
	} {
		if got := w.gets(name, dns.TypeA); got != "NOERROR "+name+" "+want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestAddressesTakeTurns: a client that takes the first address reaches all of them.
func TestAddressesTakeTurns(t *testing.T) {
	w := newWorld(t, "", nil)
	w.has("db.example.com", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	first := map[string]bool{}
	for range 2000 { // one of three is missed by all with probability 3·(2/3)^2000
		m := w.ask("udp", question("db.example.com.", dns.TypeA))
		if len(m.Answer) != 3 {
			t.Fatal(brief(m))
		}
		first[m.Answer[0].(*dns.A).A.String()] = true
		if len(first) == 3 {
			return
		}
	}
	t.Errorf("first were only %v", first)
}

// TestSizes: what does not fit into a datagram of the asker's size is cut, and whole over TCP.
func TestSizes(t *testing.T) {
	w := newWorld(t, "", nil)
	var ips []string
	for i := range 60 {
		ips = append(ips, fmt.Sprintf("10.0.0.%d", i+1))
	}
	w.has("many.example.com", ips...)
	plain := w.ask("udp", question("many.example.com.", dns.TypeA))
	if size(plain) > 512 || !plain.Truncated || plain.IsEdns0() != nil {
		t.Errorf("%d bytes, cut: %t, EDNS0: %v", size(plain), plain.Truncated, plain.IsEdns0())
	}
	large := question("many.example.com.", dns.TypeA)
	large.SetEdns0(4096, false)
	for network, q := range map[string]*dns.Msg{"udp": large, "tcp": question("many.example.com.", dns.TypeA)} {
		if m := w.ask(network, q); len(m.Answer) != 60 || m.Truncated || (m.IsEdns0() != nil) != (network == "udp") {
			t.Errorf("%s: %d answers, cut: %t, EDNS0: %v", network, len(m.Answer), m.Truncated, m.IsEdns0())
		}
	}
}

// size is what a message has on the wire.
func size(m *dns.Msg) int {
	m.Compress = true
	return m.Len()
}

func TestLargeAnswersComeOverTCP(t *testing.T) {
	u := &upstream{}
	u.say = func(network string, q *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(q)
		if network == "udp" {
			m.Truncated = true
			return m
		}
		for i := range 100 {
			m.Answer = append(m.Answer, rr(t, fmt.Sprintf("large.test. 60 IN A 192.0.2.%d", i)))
		}
		return m
	}
	w := newWorld(t, "", nil, u)
	q := question("large.test.", dns.TypeA)
	if m := w.ask("tcp", q); len(m.Answer) != 100 {
		t.Errorf("%d answers", len(m.Answer))
	}
	if got := u.asked(); !slices.Equal(got, []string{"udp large.test. A", "tcp large.test. A"}) {
		t.Errorf("%v", got)
	}
	if m := w.ask("udp", q); !m.Truncated || size(m) > 512 { // from the cache
		t.Errorf("%d bytes, cut: %t", size(m), m.Truncated)
	}
}

func TestTheNextServerIsAsked(t *testing.T) {
	silent := &upstream{say: func(string, *dns.Msg) *dns.Msg { return nil }}
	ill := &upstream{say: func(_ string, q *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure) }}
	well := &upstream{say: records(t, "web.test. 60 IN A 192.0.2.1")}
	t.Run("where one is slow", func(t *testing.T) {
		w := newWorld(t, "", func(o *names.Options) { o.Next = time.Millisecond }, silent, well)
		if got := w.gets("web.test.", dns.TypeA); got != "NOERROR web.test. A 192.0.2.1" {
			t.Error(got)
		}
	})
	t.Run("at once where one fails", func(t *testing.T) { // Next is longer than the test may take
		w := newWorld(t, "", nil, ill, well)
		if got := w.gets("web.test.", dns.TypeA); got != "NOERROR web.test. A 192.0.2.1" {
			t.Error(got)
		}
	})
	t.Run("all fail", func(t *testing.T) {
		w := newWorld(t, "", func(o *names.Options) { o.Timeout, o.Next = 50*time.Millisecond, time.Millisecond }, silent, ill)
		if got := w.gets("web.test.", dns.TypeA); got != "SERVFAIL" {
			t.Error(got)
		}
	})
	t.Run("nobody to ask", func(t *testing.T) {
		w := newWorld(t, "", nil)
		if got := w.gets("web.test.", dns.TypeA); got != "SERVFAIL" {
			t.Error(got)
		}
	})
}

func TestAnswersAreKeptForAsLongAsTheySay(t *testing.T) {
	u := &upstream{say: records(t, "web.test. 100 IN A 192.0.2.1", "short.test. 0 IN A 192.0.2.2")}
	w := newWorld(t, "", func(o *names.Options) { o.CacheSize = 3 }, u)
	asks := func(name string, want int) *dns.Msg {
		t.Helper()
		before := len(u.asked())
		m := w.ask("udp", question(name, dns.TypeA))
		if n := len(u.asked()) - before; n != want {
			t.Errorf("%s: the server was asked %d times, want %d", name, n, want)
		}
		return m
	}
	asks("web.test.", 1)
	w.now.pass(40 * time.Second)
	m := asks("WEB.test.", 0)
	if got := brief(m); m.Question[0].Name != "WEB.test." || m.Answer[0].Header().Ttl != 60 {
		t.Errorf("%s, question %s, TTL %d, want 60", got, m.Question[0].Name, m.Answer[0].Header().Ttl)
	}
	w.now.pass(60 * time.Second)
	asks("web.test.", 1)
	asks("nobody.test.", 1)
	if m := asks("nobody.test.", 0); m.Rcode != dns.RcodeNameError {
		t.Error(brief(m))
	}
	w.now.pass(60 * time.Second)
	asks("nobody.test.", 1)
	asks("short.test.", 1)
	asks("short.test.", 1)
	for i := range 3 {
		asks(fmt.Sprintf("n%d.test.", i), 1)
	}
	asks("web.test.", 1) // it had to go
	if n := w.server.Status().Cached; n != 3 {
		t.Errorf("%d answers are kept, want 3", n)
	}
}

// TestForgedAnswersAreNotTaken: an answer to another question, or with another number, is passed over.
func TestForgedAnswersAreNotTaken(t *testing.T) {
	address := net.JoinHostPort("127.0.0.2", freePort(t))
	l, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2000)
		n, from, err := l.ReadFrom(buf)
		q := new(dns.Msg)
		if err != nil || q.Unpack(buf[:n]) != nil {
			return
		}
		for _, forge := range []func(*dns.Msg){
			func(m *dns.Msg) { m.Id++ },
			func(m *dns.Msg) { m.Question[0].Name = "other.test." },
			func(m *dns.Msg) { m.Answer[0] = rr(t, "web.test. 60 IN A 192.0.2.1") },
		} {
			m := new(dns.Msg).SetReply(q)
			m.Question = slices.Clone(m.Question)
			m.Answer = []dns.RR{rr(t, "web.test. 60 IN A 192.0.2.66")}
			forge(m)
			raw, _ := m.Pack()
			_, _ = l.WriteTo(raw, from)
		}
	}()
	defer func() { l.Close(); <-done }()
	_, port, _ := net.SplitHostPort(address)
	w := newWorld(t, "nameserver 127.0.0.2\n", func(o *names.Options) { _, _ = fmt.Sscan(port, &o.Port) })
	if got := w.gets("web.test.", dns.TypeA); got != "NOERROR web.test. A 192.0.2.1" {
		t.Error(got)
	}
}

// TestNeverItself: neither where resolv.conf names the agent, nor where the rules of interception send its own
// questions back to it, which keep the address they come from.
func TestNeverItself(t *testing.T) {
	w := newWorld(t, "nameserver 127.0.0.1\n", nil)
	if got := w.server.Status().Servers; len(got) != 0 {
		t.Errorf("the agent itself is among %v", got)
	}
	if got := w.gets("web.test.", dns.TypeA); got != "SERVFAIL" {
		t.Error(got)
	}
	// An agent that listens on all addresses is at those that resolv.conf names.
	all := newWorld(t, "nameserver 127.0.0.2\nnameserver 127.0.0.3\n", func(o *names.Options) {
		_, port, _ := net.SplitHostPort(o.Listen)
		o.Listen = net.JoinHostPort("0.0.0.0", port)
	})
	if got := all.gets("web.test.", dns.TypeA); got != "SERVFAIL" {
		t.Error(got)
	}
	if n := all.metric("dns_requests_total"); n != 3 {
		t.Errorf("%v questions in all, want the one and those that came back from two servers", n)
	}
}

func TestTooMany(t *testing.T) {
	hold := make(chan struct{})
	u := &upstream{}
	u.say = func(_ string, q *dns.Msg) *dns.Msg {
		<-hold
		return new(dns.Msg).SetReply(q)
	}
	w := newWorld(t, "", func(o *names.Options) { o.Forwards = 1 }, u)
	w.has("db.example.com", "10.0.0.1")
	first := make(chan string, 1)
	go func() { first <- brief(w.ask("udp", question("slow.test.", dns.TypeA))) }()
	rig.Eventually(t, func() error {
		if len(u.asked()) == 1 {
			return nil
		}
		return errors.New("nothing is asked")
	})
	if got := w.gets("more.test.", dns.TypeA); got != "SERVFAIL" {
		t.Error(got)
	}
	if got := w.gets("db.example.com.", dns.TypeA); got != "NOERROR db.example.com. A 10.0.0.1" {
		t.Errorf("names of the mesh wait too: %s", got)
	}
	close(hold)
	if got := <-first; got != "NOERROR" {
		t.Error(got)
	}
}

// TestQuestionsWaitForTheTable: a question before the control plane has answered is not forwarded.
func TestQuestionsWaitForTheTable(t *testing.T) {
	u := &upstream{say: records(t, "db.example.com. 60 IN A 192.0.2.66")}
	w := newWorld(t, "", func(o *names.Options) { o.Hold = rig.Bound }, u)
	got := make(chan string, 1)
	go func() { got <- w.gets("db.example.com.", dns.TypeA) }()
	w.has("db.example.com", "240.240.0.1")
	if got := <-got; got != "NOERROR db.example.com. A 240.240.0.1" {
		t.Error(got)
	}
	late := newWorld(t, "", nil, u) // Hold is short
	if got := late.gets("db.example.com.", dns.TypeA); got != "NOERROR db.example.com. A 192.0.2.66" {
		t.Error(got)
	}
}

// TestOnlyFirstQuestionsWait: while no table comes, the time that questions wait ends once for all of them.
func TestOnlyFirstQuestionsWait(t *testing.T) {
	u := &upstream{say: records(t, "db.example.com. 60 IN A 192.0.2.66")}
	const hold = 300 * time.Millisecond
	w := newWorld(t, "", func(o *names.Options) { o.Hold = hold }, u)
	start := time.Now()
	for range 30 {
		if got := w.gets("db.example.com.", dns.TypeA); got != "NOERROR db.example.com. A 192.0.2.66" {
			t.Error(got)
		}
	}
	if took := time.Since(start); took < hold || took > 20*hold {
		t.Errorf("30 questions took %v; the first may wait %v", took, hold)
	}
}

func TestResolvConfIsReadAgain(t *testing.T) {
	u := &upstream{say: records(t)}
	w := newWorld(t, "search one.test\n", nil, u)
	w.has("db.example.com", "10.0.0.1")
	if err := os.WriteFile(w.o.ResolvConf, []byte("search two.test\nnameserver 127.0.0.2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, func() error {
		if s := w.server.Status(); !slices.Equal(s.Search, []string{"two.test"}) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if got := w.gets("db.example.com.two.test.", dns.TypeA); !strings.HasSuffix(got, "A 10.0.0.1") {
		t.Error(got)
	}
}

func TestMistakes(t *testing.T) {
	for _, listen := range []string{"here", "name:53", "127.0.0.1:x", "127.0.0.1:0"} {
		if _, err := names.New(names.Options{Listen: listen}, names.NewTable("x")); err == nil || !strings.Contains(err.Error(), listen) {
			t.Errorf("%s: %v", listen, err)
		}
	}
	w := newWorld(t, "", nil)
	two := question("a.test.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	if got := brief(w.ask("udp", two)); got != "FORMERR" {
		t.Error(got)
	}
	update := question("a.test.", dns.TypeA)
	update.Opcode = dns.OpcodeUpdate
	if got := brief(w.ask("udp", update)); got != "NOTIMP" {
		t.Error(got)
	}
}
