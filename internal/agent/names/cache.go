package names

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// cache keeps answers of name servers for their lifetime. If there are too many, the least recently used are dropped first.
type cache struct {
	limit int
	now   func() time.Time

	mu  sync.Mutex
	all map[question]*list.Element
	use *list.List // of *kept, the last used first
}

// question is the key of an answer.
type question struct {
	name              string // canonical
	typ, class        uint16
	signed, unchecked bool // DNSSEC was asked for; checking was not
}

type kept struct {
	question
	reply        *dns.Msg
	since, until time.Time
}

func newCache(limit int, now func() time.Time) *cache {
	return &cache{limit: limit, now: now, all: map[question]*list.Element{}, use: list.New()}
}

func questionOf(q *dns.Msg) question {
	first := q.Question[0]
	out := question{name: canonical(first.Name), typ: first.Qtype, class: first.Qclass, unchecked: q.CheckingDisabled}
	if opt := q.IsEdns0(); opt != nil {
		out.signed = opt.Do()
	}
	return out
}

// get returns an answer for a question, with the time that is left; nil: none is known.
func (c *cache) get(q *dns.Msg) *dns.Msg {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.all[questionOf(q)]
	if !ok {
		return nil
	}
	k, now := at.Value.(*kept), c.now()
	if !now.Before(k.until) {
		c.remove(at)
		return nil
	}
	c.use.MoveToFront(at)
	reply := asReplyTo(k.reply.Copy(), q)
	reply.RecursionDesired = q.RecursionDesired
	age := uint32(now.Sub(k.since) / time.Second)
	for _, section := range [][]dns.RR{reply.Answer, reply.Ns, reply.Extra} {
		for _, r := range section {
			if h := r.Header(); h.Rrtype != dns.TypeOPT {
				h.Ttl -= min(age, h.Ttl)
			}
		}
	}
	return reply
}

// longest is how long any answer is kept.
const longest = time.Hour

// put keeps an answer, if it may be kept.
func (c *cache) put(q, reply *dns.Msg) {
	ttl, ok := lifetime(reply)
	if !ok {
		return
	}
	k := &kept{question: questionOf(q), reply: reply.Copy(), since: c.now()}
	dropOPT(k.reply) // it was between the agent and that server
	k.until = k.since.Add(min(ttl, longest))
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.all[k.question]; ok {
		c.remove(at)
	}
	c.all[k.question] = c.use.PushFront(k)
	for c.use.Len() > c.limit {
		c.remove(c.use.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	delete(c.all, at.Value.(*kept).question)
	c.use.Remove(at)
}

func (c *cache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.use.Len()
}

// lifetime returns how long an answer is valid: the least time of its records; for a negative answer, that of the zone's SOA (RFC
// 2308, 5). False: it may not be kept.
func lifetime(m *dns.Msg) (time.Duration, bool) {
	if m.Truncated || m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0, false
	}
	least, some := uint32(0), false
	take := func(ttl uint32) {
		if !some || ttl < least {
			least, some = ttl, true
		}
	}
	negative := true // unless something of the type asked for is there
	for _, r := range m.Answer {
		take(r.Header().Ttl)
		negative = negative && len(m.Question) > 0 && r.Header().Rrtype != m.Question[0].Qtype && m.Question[0].Qtype != dns.TypeANY
	}
	if negative {
		at := slices.IndexFunc(m.Ns, func(r dns.RR) bool { return r.Header().Rrtype == dns.TypeSOA })
		if at < 0 {
			return 0, false
		}
		soa := m.Ns[at].(*dns.SOA)
		take(min(soa.Hdr.Ttl, soa.Minttl))
	}
	return time.Duration(least) * time.Second, least > 0
}

// dropOPT removes the EDNS0 record, which is valid between two parties only.
func dropOPT(m *dns.Msg) {
	m.Extra = slices.DeleteFunc(m.Extra, func(r dns.RR) bool { return r.Header().Rrtype == dns.TypeOPT })
}
