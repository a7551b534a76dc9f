package planes

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// Most is how many addresses an agent takes.
const Most = 16

// Times of the look whether a control plane still answers: together less than two seconds.
const (
	lookEvery    = 600 * time.Millisecond
	answerWithin = 900 * time.Millisecond
	// patient is the longest answerWithin: it doubles each time that a control plane is left because it does not answer, so that many
	// slow control planes are not given up in turns. After calm it is answerWithin again.
	patient = 10 * time.Second
	calm    = time.Minute
)

// scheme names gRPC's resolver of these addresses.
const scheme = "planes"

// Planes are the addresses of a client's control planes. Any goroutine may use it.
type Planes struct {
	all []string // as they were given
	log *slog.Logger

	mu      sync.Mutex
	order   []string // to try
	clients []resolver.ClientConn
	open    map[*conn]bool
	wait    time.Duration // for an answer
	left    time.Time     // when one was last left because it did not answer
}

// New takes one or more addresses, each as host:port.
func New(addresses []string, log *slog.Logger) *Planes {
	return &Planes{all: addresses, log: log, order: Shuffled(addresses), open: map[*conn]bool{}, wait: answerWithin}
}

// Shuffled returns the addresses in a random order.
func Shuffled(addresses []string) []string {
	out := slices.Clone(addresses)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// several reports whether there is a choice.
func (p *Planes) several() bool { return len(p.all) > 1 }

// Target is what a client of gRPC is made for, with DialOptions.
func (p *Planes) Target() string {
	if p.several() {
		return scheme + ":///" + p.all[0]
	}
	return p.all[0]
}

// String lists the addresses for users.
func (p *Planes) String() string { return strings.Join(p.all, ",") }

// DialOptions lead a client of gRPC to the control planes.
func (p *Planes) DialOptions() []grpc.DialOption {
	if !p.several() {
		return nil
	}
	return []grpc.DialOption{grpc.WithResolvers(builder{p}), grpc.WithContextDialer(p.dial)}
}

// Leave closes the connections to the control planes in use, and has the others tried before them. Nothing happens if there are no others.
func (p *Planes) Leave(why error) {
	if !p.several() {
		return
	}
	p.mu.Lock()
	var closing []*conn
	for c := range p.open {
		closing = append(closing, c)
		p.order = append(slices.DeleteFunc(p.order, func(a string) bool { return a == c.address }), c.address)
	}
	clients, addresses := slices.Clone(p.clients), p.addresses()
	p.mu.Unlock()
	for _, to := range clients {
		_ = to.UpdateState(addresses) // pick_first takes any list that is not empty
	}
	for _, c := range closing {
		p.log.Warn("the control plane is left for another one", "address", c.address, "reason", why)
		_ = c.Close()
	}
}

// addresses is the order for gRPC; callers hold mu. TLS knows each server by its address.
func (p *Planes) addresses() (out resolver.State) {
	for _, a := range p.order {
		out.Addresses = append(out.Addresses, resolver.Address{Addr: a, ServerName: a})
	}
	return out
}

// Watch leaves a control plane that does not answer, until ctx ends. client is made with DialOptions.
func (p *Planes) Watch(ctx context.Context, client *grpc.ClientConn) {
	if !p.several() {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if client.GetState() != connectivity.Ready {
			continue
		}
		if err := p.look(ctx, client); err != nil && ctx.Err() == nil {
			p.Leave(err)
		}
	}
}

// look returns an error if the control plane does not answer. Any answer counts: a refusal, and that it does not know the question.
func (p *Planes) look(ctx context.Context, client *grpc.ClientConn) error {
	p.mu.Lock()
	if time.Since(p.left) > calm {
		p.wait = answerWithin
	}
	wait := p.wait
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(client).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if status.Code(err) != codes.DeadlineExceeded {
		return nil // gRPC itself notices a connection that ends
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.wait = time.Now(), min(2*wait, patient)
	return err
}

// conn is a connection that Leave can close.
type conn struct {
	net.Conn
	planes  *Planes
	address string
}

// Close closes the connection.
func (c *conn) Close() error {
	c.planes.mu.Lock()
	delete(c.planes.open, c)
	c.planes.mu.Unlock()
	return c.Conn.Close()
}

func (p *Planes) dial(ctx context.Context, address string) (net.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{raw, p, address}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	return c, nil
}

// builder is gRPC's way to the addresses.
type builder struct{ planes *Planes }

// Scheme is gRPC's.
func (builder) Scheme() string { return scheme }

// OverrideAuthority is gRPC's: calls name the first address, as they would without a choice.
func (builder) OverrideAuthority(t resolver.Target) string { return url.PathEscape(t.Endpoint()) }

// Build is gRPC's.
func (b builder) Build(_ resolver.Target, to resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	p := b.planes
	p.mu.Lock()
	p.clients = append(p.clients, to)
	first := p.addresses()
	p.mu.Unlock()
	return resolved{p, to}, to.UpdateState(first)
}

// resolved is one client's use of the addresses.
type resolved struct {
	planes *Planes
	client resolver.ClientConn
}

// ResolveNow is gRPC's: names are resolved by each connection.
func (resolved) ResolveNow(resolver.ResolveNowOptions) {}

// Close is gRPC's.
func (r resolved) Close() {
	r.planes.mu.Lock()
	defer r.planes.mu.Unlock()
	r.planes.clients = slices.DeleteFunc(r.planes.clients, func(c resolver.ClientConn) bool { return c == r.client })
}
