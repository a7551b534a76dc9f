package names

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"fairway/internal/disk/watch"
	"fairway/internal/identity/safefile"
)

// forwarder asks name servers.
type forwarder struct {
	o      Options
	counts *counts
	cache  *cache
	slots  chan struct{} // a token for each question under way
	file   []byte        // the resolv.conf in force; only read uses it, and one goroutine at a time calls that

	mu      sync.Mutex // guards the rest
	servers []string   // host:port
	domains []string   // the search list, canonical
	timeout time.Duration
	failed  error           // why the file is not in force
	own     map[string]bool // local addresses of questions that are under way
}

func newForwarder(o Options, c *counts) *forwarder {
	return &forwarder{o: o, counts: c, cache: newCache(o.CacheSize, o.Now), slots: make(chan struct{}, o.Forwards), own: map[string]bool{}}
}

// longestConf is how many bytes are read of resolv.conf.
const longestConf = 1 << 20

// lookEvery is how often resolv.conf is checked; a change is in force after two checks. The system reports no change if the file
// itself is mounted, as in containers.
const lookEvery = 500 * time.Millisecond

// watch watches resolv.conf; the caller stops it.
func (f *forwarder) watch() *watch.Follower {
	return watch.Follow(watch.Options{
		Files: func() []string { return []string{f.o.ResolvConf} },
		Quiet: lookEvery,
		Every: lookEvery,
		Log:   f.o.Log,
	})
}

// follow reads resolv.conf again when it has changed, until ctx ends.
func (f *forwarder) follow(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
			f.read()
		case <-ctx.Done():
			return
		}
	}
}

// read applies resolv.conf if it differs from the one in force. If it cannot be read, the one in force stays.
func (f *forwarder) read() {
	content, err := safefile.Read(f.o.ResolvConf, longestConf)
	if f.file != nil && bytes.Equal(content, f.file) && err == nil {
		return
	}
	conf, err2 := dns.ClientConfigFromReader(bytes.NewReader(content))
	if err = errors.Join(err, err2); err == nil {
		f.file = append([]byte{}, content...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if said := f.failed != nil; err != nil {
		if f.failed = err; !said {
			f.o.Log.Warn("no name servers can be read: names outside of the mesh resolve as far as those known before do", "file",
				f.o.ResolvConf, "error", err)
		}
		return
	}
	f.failed = nil
	mine, _ := f.o.addresses() // checked before
	f.servers, f.domains, f.timeout = nil, nil, time.Duration(conf.Timeout)*time.Second
	for _, server := range conf.Servers {
		at := net.JoinHostPort(server, strconv.Itoa(int(f.o.Port)))
		if slices.Contains(mine, at) {
			f.o.Log.Warn("a name server is the agent itself: it is not asked", "file", f.o.ResolvConf, "server", at)
			continue
		}
		f.servers = append(f.servers, at)
	}
	for _, d := range conf.Search {
		f.domains = append(f.domains, canonical(d))
	}
	if f.o.Timeout != 0 {
		f.timeout = f.o.Timeout
	}
}

func (f *forwarder) search() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.domains
}

func (f *forwarder) upstreams() ([]string, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.servers, f.timeout
}

// isOwn reports whether a question comes from a socket that this agent uses to ask name servers.
func (f *forwarder) isOwn(from net.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own[from.Network()+" "+from.String()]
}

func (f *forwarder) markOwn(a net.Addr, own bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := a.Network() + " " + a.String(); own {
		f.own[key] = true
	} else {
		delete(f.own, key)
	}
}

// ask answers from the cache or by asking name servers. The caller owns the answer.
func (f *forwarder) ask(q *dns.Msg) *dns.Msg {
	if reply := f.cache.get(q); reply != nil {
		f.counts.hits.Inc()
		return reply
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		f.counts.refused.Inc()
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	}
	servers, timeout := f.upstreams()
	reply, err := f.race(q, servers, timeout)
	if reply == nil {
		f.o.Log.Debug("no name server answers", "name", q.Question[0].Name, "error", err)
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	}
	if n := f.withoutLocal(reply); n > 0 {
		f.counts.local.Add(float64(n))
		f.o.Log.Debug("addresses of this machine are left out of a name server's answer; DNS_LOCAL_NAMES lets a name have such",
			"name", q.Question[0].Name, "addresses", n)
	}
	f.cache.put(q, reply)
	return asReplyTo(reply, q)
}

// asReplyTo makes an answer the answer to the same question with another ID and with other upper and lower case.
func asReplyTo(reply, q *dns.Msg) *dns.Msg {
	reply.Id, reply.Question = q.Id, q.Question
	return reply
}

// errNoServers is the error if resolv.conf names no name server.
var errNoServers = errors.New("there are no name servers")

// race asks one server after the other, each as soon as the one before has failed or is slow, and returns the first good answer; if
// there is none, a refusal or an error.
func (f *forwarder) race(q *dns.Msg, servers []string, timeout time.Duration) (*dns.Msg, error) {
	if len(servers) == 0 {
		return nil, errNoServers
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Duration(len(servers)-1)*f.o.Next)
	defer cancel()
	results := make(chan result, len(servers))
	next := time.NewTimer(0)
	defer next.Stop()
	var best result
	for asked, over := 0, 0; over < len(servers); {
		select {
		case <-next.C:
			if asked < len(servers) {
				go func(server string) { results <- f.exchange(ctx, q, server, timeout) }(servers[asked])
				asked++
				next.Reset(f.o.Next)
			}
		case r := <-results:
			if over++; r.good() {
				return r.reply, nil
			}
			if best.reply == nil {
				best = r
			}
			next.Reset(0)
		}
	}
	return best.reply, best.err
}

// result is the result of asking one server.
type result struct {
	reply *dns.Msg
	err   error
}

// good reports whether the answer counts: other servers may know better than one that is in trouble.
func (r result) good() bool {
	return r.err == nil && (r.reply.Rcode == dns.RcodeSuccess || r.reply.Rcode == dns.RcodeNameError)
}

// exchange asks one server, over TCP if its answer does not fit into a datagram.
func (f *forwarder) exchange(ctx context.Context, q *dns.Msg, server string, timeout time.Duration) result {
	began := f.o.Now()
	f.counts.upstream.Inc()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out := q.Copy()
	out.Id = dns.Id()
	r := f.exchangeOver(ctx, "udp", out, server)
	if r.err == nil && r.reply.Truncated {
		r = f.exchangeOver(ctx, "tcp", out, server)
	}
	f.counts.duration.Observe(f.o.Now().Sub(began).Seconds())
	if !r.good() && !errors.Is(ctx.Err(), context.Canceled) { // not where another server was faster
		f.counts.failures.Inc()
	}
	return r
}

func (f *forwarder) exchangeOver(ctx context.Context, network string, q *dns.Msg, server string) result {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, network, server)
	if err != nil {
		return result{err: err}
	}
	defer raw.Close()
	local := raw.LocalAddr()
	f.markOwn(local, true)
	defer f.markOwn(local, false)
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn := &dns.Conn{Conn: raw, UDPSize: dns.MaxMsgSize}
	if err := conn.WriteMsg(q); err != nil {
		return result{err: err}
	}
	for {
		reply, err := conn.ReadMsg()
		if err != nil {
			return result{err: fmt.Errorf("%s %s: %w", network, server, err)}
		}
		if answers(reply, q) {
			return result{reply: reply}
		}
	}
}

// answers reports whether a message is the answer to a question; any program may send datagrams.
func answers(reply, q *dns.Msg) bool {
	if reply.Id != q.Id || !reply.Response {
		return false
	}
	if len(reply.Question) == 0 { // some servers leave it out of refusals
		return reply.Rcode != dns.RcodeSuccess
	}
	a, b := reply.Question[0], q.Question[0]
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}
