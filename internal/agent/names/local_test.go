package names_test

import (
	"testing"

	"github.com/miekg/dns"

	"fairway/internal/agent/names"
)

// TestNamesOfStrangersAreNotThisMachine: a name server's answer cannot lead to a server that listens only on this machine; names
// that may are built in or configured.
func TestNamesOfStrangersAreNotThisMachine(t *testing.T) {
	u := &upstream{
		say: records(t, "a.evil.test. 60 IN A 127.0.0.1", "a.evil.test. 60 IN A 10.0.0.7", "b.evil.test. 60 IN A 0.0.0.0",
			"b.evil.test. 60 IN AAAA ::1", "c.evil.test. 60 IN A 169.254.169.254", "c.evil.test. 60 IN AAAA ::ffff:127.0.0.1",
			"metadata.google.internal. 60 IN A 169.254.169.254", "me.dev.test. 60 IN A 127.0.0.1", "localhost. 60 IN A 127.0.0.1",
			"x.localhost. 60 IN A 127.0.0.1", "h.evil.test. 60 IN HTTPS 1 . ipv4hint=127.0.0.1", "notdev.test. 60 IN A 127.0.0.1"),
	}
	w := newWorld(t, "", func(o *names.Options) { o.LocalNames = []string{"dev.test"} }, u)
	for _, c := range []struct {
		name string
		typ  uint16
		want string
	}{
		{
			"a.evil.test.", dns.TypeA, "NOERROR a.evil.test. A 10.0.0.7",
		}, {"b.evil.test.", dns.TypeA, "NOERROR"}, {"b.evil.test.", dns.TypeAAAA, "NOERROR"},
		{"c.evil.test.", dns.TypeA, "NOERROR"}, {"c.evil.test.", dns.TypeAAAA, "NOERROR"},
		{"h.evil.test.", dns.TypeHTTPS, "NOERROR"}, {"notdev.test.", dns.TypeA, "NOERROR"},
		{
			"metadata.google.internal.", dns.TypeA, "NOERROR metadata.google.internal. A 169.254.169.254",
		}, {"me.dev.test.", dns.TypeA, "NOERROR me.dev.test. A 127.0.0.1"},
		{"localhost.", dns.TypeA, "NOERROR localhost. A 127.0.0.1"}, {"X.Localhost.", dns.TypeA, "NOERROR x.localhost. A 127.0.0.1"},
	} {
		for range 2 { // from the name server, then from the cache
			if got := w.gets(c.name, c.typ); got != c.want {
				t.Errorf("%s %s: %s, want %s", c.name, dns.TypeToString[c.typ], got, c.want)
			}
		}
	}
	if n := w.metric("dns_local_addresses_refused_total"); n < 7 {
		t.Errorf("%v addresses were refused", n)
	}
}

// FuzzAnswer: whatever datagram comes from a name server, its result holds no address of this machine, and nothing crashes.
func FuzzAnswer(f *testing.F) {
	m := new(dns.Msg).SetReply(question("a.test.", dns.TypeA))
	m.Answer = []dns.RR{rr(f, "a.test. 60 IN A 127.0.0.1"), rr(f, "a.test. 60 IN CNAME b.test.")}
	seed, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{0, 1, 0x80})
	f.Fuzz(func(t *testing.T, packet []byte) { names.CheckAnswer(t, packet) })
}

// FuzzQuestion: whatever datagram comes from the workload, nothing crashes.
func FuzzQuestion(f *testing.F) {
	for _, q := range []*dns.Msg{
		question("reviews.shop.", dns.TypeA), question(".", dns.TypeANY),
		question("_http._tcp.a.", dns.TypeSRV).SetEdns0(512, true),
	} {
		raw, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, packet []byte) { names.CheckQuestion(t, packet) })
}
