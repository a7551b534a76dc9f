package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// Options define where the server listens, and how it asks name servers for names that are not of the mesh.
type Options struct {
	// Listen is host:port; "localhost" is 127.0.0.1, and ::1 if there is one.
	Listen string
	// ResolvConf is the file that names name servers and the search list; it is read again when it changes. Empty: /etc/resolv.conf.
	ResolvConf string
	// Port is the port of the name servers; 0: 53.
	Port uint16
	// Hold is how long after the first question questions wait for the table's first entries before they are forwarded; 0: two seconds.
	Hold time.Duration
	// Timeout is how long a name server may take, Next how long until another one is asked beside it; 0: the value of resolv.conf
	// (5 s by default), and half a second.
	Timeout, Next time.Duration
	// Forwards bounds the questions that wait for name servers; 0: 1024. Those beyond it are answered with SERVFAIL.
	Forwards int
	// CacheSize bounds the answers that are kept; 0: 4096.
	CacheSize int
	// LocalNames are names, with all below them, that name servers may give addresses of this machine or its link,
	// beside localhost and metadata.google.internal.
	LocalNames []string
	Now        func() time.Time
	Log        *slog.Logger
}

// DefaultListen is the address that the kernel's rules redirect the workload's questions to.
const DefaultListen = "localhost:15053"

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
	if o.Port == 0 {
		o.Port = 53
	}
	if o.Hold == 0 {
		o.Hold = 2 * time.Second
	}
	if o.Next == 0 {
		o.Next = 500 * time.Millisecond
	}
	if o.Forwards == 0 {
		o.Forwards = 1024
	}
	if o.CacheSize == 0 {
		o.CacheSize = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Server answers a workload's questions. Make it with New and run it once.
type Server struct {
	o       Options
	table   *Table
	forward *forwarder
	counts  *counts

	firstQuestion sync.Once // the first question has come
	waitUntil     time.Time // set by asked: questions wait for the table until then
}

// New checks the options; nothing is opened before Run.
func New(o Options, t *Table) (*Server, error) {
	o = o.withDefaults()
	if _, err := o.addresses(); err != nil {
		return nil, err
	}
	c := newCounts()
	return &Server{o: o, table: t, forward: newForwarder(o, c), counts: c}, nil
}

// addresses returns where to listen; the first address must exist.
func (o Options) addresses() ([]string, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address to answer DNS at: want host:port", o.Listen)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("%q is not an address to answer DNS at: %q is not a port", o.Listen, port)
	}
	if host == "localhost" {
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}, nil
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil {
		return nil, fmt.Errorf("%q is not an address to answer DNS at: want an IP address or localhost", o.Listen)
	}
	return []string{o.Listen}, nil
}

// Run answers until ctx ends, and calls up once questions can be asked.
func (s *Server) Run(ctx context.Context, up func()) error {
	sockets, err := s.listen()
	if err != nil {
		return err
	}
	conf := s.forward.watch()
	defer conf.Stop()
	s.forward.read()
	g, ctx := errgroup.WithContext(ctx)
	for _, server := range sockets {
		g.Go(func() error { return serve(ctx, server) })
	}
	g.Go(func() error { s.forward.follow(ctx, conf.Changed()); return nil })
	up()
	return g.Wait()
}

func serve(ctx context.Context, server *dns.Server) error {
	began, failed := make(chan struct{}), make(chan error, 1)
	server.NotifyStartedFunc = func() { close(began) }
	go func() { failed <- server.ActivateAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("answer DNS: %w", err)
	case <-began:
	}
	select {
	case err := <-failed:
		return fmt.Errorf("answer DNS: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = server.ShutdownContext(bounded) // questions that take longer get no answer
	if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("answer DNS: %w", err)
	}
	return nil
}

// listen opens all sockets. For localhost, the socket of IPv6 is optional.
func (s *Server) listen() (out []*dns.Server, err error) {
	all, err := s.o.addresses()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, server := range out {
				closeSockets(server)
			}
		}
	}()
	for i, address := range all {
		server := [2]*dns.Server{}
		packets, err := net.ListenPacket("udp", address)
		if err == nil {
			server[0] = &dns.Server{PacketConn: packets, Handler: s, UDPSize: dns.MaxMsgSize}
			stream, err2 := net.Listen("tcp", address)
			if err = err2; err == nil {
				server[1] = &dns.Server{Listener: stream, Handler: s, ReadTimeout: 5 * time.Second}
			} else {
				packets.Close()
			}
		}
		switch {
		case err == nil:
			out = append(out, server[0], server[1])
		case i == 0:
			return out, fmt.Errorf("cannot answer DNS on %s: %w; choose another address with DNS_PROXY_ADDR", address, err)
		case !errors.Is(err, os.ErrPermission):
			s.o.Log.Debug("DNS is answered over IPv4 alone", "error", err)
		}
	}
	return out, nil
}

func closeSockets(s *dns.Server) {
	if s.PacketConn != nil {
		s.PacketConn.Close()
	}
	if s.Listener != nil {
		s.Listener.Close()
	}
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	s.counts.requests.Inc()
	reply := s.answer(w.RemoteAddr(), q)
	_, tcp := w.RemoteAddr().(*net.TCPAddr)
	fit(reply, q, tcp)
	if err := w.WriteMsg(reply); err != nil {
		s.o.Log.Debug("an answer could not be sent", "to", w.RemoteAddr().String(), "error", err)
	}
}

// fit limits an answer to the size that the client accepts: RFC 6891, 6.2.3 to 6.2.5, and RFC 1035, 4.2.1, without EDNS0.
func fit(reply, q *dns.Msg, tcp bool) {
	reply.Compress = true
	size := dns.MinMsgSize
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, int(opt.UDPSize()))
		if reply.IsEdns0() == nil {
			reply.SetEdns0(maxUDP, opt.Do())
		}
	} else {
		dropOPT(reply)
	}
	if tcp {
		size = dns.MaxMsgSize
	}
	reply.Truncate(size)
}

// maxUDP is the largest datagram that is accepted: this size passes without fragments nearly everywhere.
const maxUDP = 1232

// answer finds the answer to a question.
func (s *Server) answer(from net.Addr, q *dns.Msg) *dns.Msg {
	switch {
	case q.Opcode != dns.OpcodeQuery:
		return new(dns.Msg).SetRcode(q, dns.RcodeNotImplemented)
	case len(q.Question) != 1:
		return new(dns.Msg).SetRcode(q, dns.RcodeFormatError)
	case s.forward.isOwn(from):
		s.o.Log.Error("what the agent asks a name server comes back to itself: the rules of interception must leave its user out",
			"from", from.String(), "name", q.Question[0].Name)
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	}
	s.wait()
	question := q.Question[0]
	if question.Qclass == dns.ClassINET {
		if f, ok := s.table.lookup(canonical(question.Name), s.forward.search()); ok {
			if reply, ok := f.reply(q); ok {
				s.counts.mesh.Inc()
				return reply
			}
		}
	}
	return s.forward.ask(q)
}

// wait gives the table time to be filled when the agent has just started: a question that comes too early would get the address of
// another server. The time begins with the first question; once it is over, no question waits.
func (s *Server) wait() {
	select {
	case <-s.table.first:
		return
	default:
	}
	s.firstQuestion.Do(func() { s.waitUntil = time.Now().Add(s.o.Hold) })
	left := time.Until(s.waitUntil)
	if left <= 0 {
		return
	}
	hold := time.NewTimer(left)
	defer hold.Stop()
	select {
	case <-s.table.first:
	case <-hold.C:
	}
}

// meshTTL is how long a name of the mesh may be remembered, in seconds.
const meshTTL = 30

// reply answers from the table; false if only name servers can answer the question.
func (f found) reply(q *dns.Msg) (*dns.Msg, bool) {
	question := q.Question[0]
	var v4, v6 []netip.Addr
	switch question.Qtype {
	case dns.TypeA:
		v4 = f.v4
	case dns.TypeAAAA:
		v6 = f.v6
	case dns.TypeANY:
		v4, v6 = f.v4, f.v6
	case dns.TypeHTTPS, dns.TypeSVCB: // they would lead around the mesh (RFC 9460 has addresses in them)
	default:
		return nil, false
	}
	reply := new(dns.Msg).SetReply(q)
	reply.Authoritative, reply.RecursionAvailable = true, true
	owner := question.Name
	if f.alias != "" && len(v4)+len(v6) > 0 {
		target := dns.Fqdn(f.alias)
		reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME), Target: target})
		owner = target
	}
	for _, ip := range v4 {
		reply.Answer = append(reply.Answer, &dns.A{Hdr: header(owner, dns.TypeA), A: ip.AsSlice()})
	}
	for _, ip := range v6 {
		reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA), AAAA: ip.AsSlice()})
	}
	return reply, true
}

func header(owner string, typ uint16) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: typ, Class: dns.ClassINET, Ttl: meshTTL}
}
