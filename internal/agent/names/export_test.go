package names

import (
	"testing"
	"time"

	"github.com/miekg/dns"
)

// CheckAnswer has a packet go the way of a name server's answer.
func CheckAnswer(t *testing.T, packet []byte) {
	m := new(dns.Msg)
	if m.Unpack(packet) != nil || len(m.Question) != 1 {
		return
	}
	q := new(dns.Msg).SetQuestion(m.Question[0].Name, m.Question[0].Qtype)
	f := newForwarder(Options{}.withDefaults(), newCounts())
	f.withoutLocal(m)
	if !f.mayBeLocal(canonical(m.Question[0].Name)) {
		for _, r := range m.Answer {
			if localRecord(r) {
				t.Fatalf("%s stays", r)
			}
		}
	}
	c := newCache(4, time.Now)
	c.put(q, m)
	if kept := c.get(q); kept != nil {
		fit(kept, q, false)
		if _, err := kept.Pack(); err != nil {
			t.Skip(err) // the packet has names that cannot be written again
		}
	}
	_ = answers(m, q)
}

// CheckQuestion has a packet go the way of a workload's question.
func CheckQuestion(t *testing.T, packet []byte) {
	q := new(dns.Msg)
	if q.Unpack(packet) != nil || len(q.Question) != 1 {
		return
	}
	table := NewTable("shop.svc.cluster.local")
	if f, ok := table.lookup(canonical(q.Question[0].Name), []string{"svc.cluster.local"}); ok {
		if reply, ok := f.reply(q); ok {
			fit(reply, q, false)
		}
	}
	_ = questionOf(q)
}
