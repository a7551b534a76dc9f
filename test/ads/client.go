package ads

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Event says that a client got a response, or that its stream ended with Err.
type Event struct {
	Client  *Client
	At      time.Time
	Type    string
	Names   []string // resources in it
	Removed []string
	Bytes   int
	Err     error
}

// Totals sums responses.
type Totals struct{ Responses, Resources, Removed, Bytes int }

// Held is one resource that a client holds.
type Held struct {
	Version string
	Body    []byte // nil unless the client keeps bodies

	refs references
}

// Client is one proxy. Make it with New; Connect and Disconnect may be called in turn, from one goroutine. The state
// that it holds outlives its streams.
type Client struct {
	Node   *corev3.Node
	SotW   bool // speak the state-of-the-world protocol
	Bodies bool // keep the resources' bytes, for Body
	Tables bool // ask for the tables of names too, as the agents of proxies that resolve DNS do
	// drop route configurations and secrets at once when nothing refers to them any more, as if no listener drained;
	// otherwise the server removes them
	Prompt bool

	// Credentials are the certificate that the client shows and the roots that it trusts; nil: plaintext.
	Credentials credentials.TransportCredentials

	reader *Reader
	events func(Event)

	conn   *grpc.ClientConn
	stream stream
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	held     map[string]map[string]Held // type → name
	wanted   map[string]map[string]int  // type → names asked for, and how many resources that it holds refer to each
	absent   map[string]map[string]bool // type → requested names that the server reported as missing
	asked    map[string]bool            // types asked for on this stream
	received Totals
}

// New returns a client that is not connected. events is called for each response, on the client's own goroutine;
// clients may share a reader.
func New(node *corev3.Node, reader *Reader, events func(Event)) *Client {
	return &Client{
		Node:   node,
		reader: reader,
		events: events,
		held:   map[string]map[string]Held{},
		wanted: map[string]map[string]int{},
		absent: map[string]map[string]bool{},
	}
}

// Connect opens the stream and starts reading. It first tells the server which resources the client holds from before.
func (c *Client) Connect(ctx context.Context, target string) error {
	shown := c.Credentials
	if shown == nil {
		shown = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(shown),
		grpc.WithConnectParams(grpc.ConnectParams{ // a server that is just starting is there within milliseconds
			Backoff: backoff.Config{
				BaseDelay:  5 * time.Millisecond,
				Multiplier: 1.2,
				MaxDelay:   50 * time.Millisecond,
			},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	open := openDelta
	if c.SotW {
		open = openSotW
	}
	s, err := open(ctx, c, conn)
	if err != nil {
		cancel()
		conn.Close()
		return err
	}
	c.conn, c.stream, c.cancel, c.done, c.asked = conn, s, cancel, make(chan struct{}), map[string]bool{}
	if err := c.greet(s); err != nil {
		cancel()
		conn.Close()
		c.cancel = nil // there is no reader: Disconnect has nothing to wait for
		return err
	}
	go c.read(ctx, s)
	return nil
}

// greet asks for the wildcard types, and for all that the client refers to already, before it hears anything, as Envoy
// does when it reconnects.
func (c *Client) greet(s stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	wildcards := []string{ClusterType, ListenerType}
	if c.Tables {
		wildcards = append(wildcards, NameTableType)
	}
	for _, typ := range wildcards {
		if err := c.ask(s, typ, nil, nil); err != nil {
			return err
		}
	}
	for _, typ := range referred {
		if len(c.wanted[typ]) == 0 {
			continue
		}
		if err := c.ask(s, typ, c.names(typ), nil); err != nil {
			return err
		}
	}
	return nil
}

// Disconnect ends the stream and waits for its reader.
func (c *Client) Disconnect() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	<-c.done
	c.conn.Close()
	c.cancel = nil
}

// Report tells the server something of this proxy by a request that asks for nothing, as agents do; failure, if not
// empty, is its error_detail.
func (c *Client) Report(typ, failure string) error {
	c.mu.Lock() // others send under it too
	defer c.mu.Unlock()
	var detail *statuspb.Status
	if failure != "" {
		detail = &statuspb.Status{Code: int32(codes.Internal), Message: failure}
	}
	return c.stream.report(typ, detail)
}

// stream is either protocol's, as far as the client tells them apart.
type stream interface {
	// ask subscribes to names (none: a wildcard) and unsubscribes from others. first is set with a stream's first request of the type.
	ask(typ string, subscribe, unsubscribe []string, first bool) error
	receive() (response, error)
	ack(r response) error
	report(typ string, failure *statuspb.Status) error
}

// response is what both protocols' responses come to.
type response struct {
	typ, version, nonce string
	resources           []resource
	removed             []string // delta: named by the server; state of the world: what a full answer leaves out
	bytes               int      // without nonce and number of the turn, which get longer with time
}

type resource struct {
	name, version string
	body          []byte
}

func (c *Client) ask(s stream, typ string, subscribe, unsubscribe []string) error {
	if c.SotW && typ == VirtualHostType {
		return nil // the state of the world has no virtual hosts of their own
	}
	first := !c.asked[typ]
	c.asked[typ] = true
	return s.ask(typ, subscribe, unsubscribe, first)
}

// names returns the names that the client subscribes to; none for the wildcard.
func (c *Client) names(typ string) []string {
	names := slices.Sorted(maps.Keys(c.wanted[typ]))
	return slices.DeleteFunc(names, func(n string) bool { return n == "*" })
}

func (c *Client) read(ctx context.Context, s stream) {
	defer close(c.done)
	for {
		r, err := s.receive()
		ev := Event{Client: c, At: time.Now()}
		if err == nil {
			err = c.take(s, r, &ev)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			c.events(ev)
			err = c.acknowledge(s, r)
		}
		if err != nil {
			c.events(Event{Client: c, At: ev.At, Err: err})
			return
		}
	}
}

// take stores a response, asks for the resources that it newly refers to, and drops the resources that nothing refers to any more.
func (c *Client) take(s stream, r response, ev *Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ev.Type, ev.Bytes, ev.Removed = r.typ, r.bytes, r.removed
	moved, err := c.store(r, ev)
	if err != nil {
		return err
	}
	c.received.Responses++
	c.received.Resources += len(r.resources)
	c.received.Removed += len(r.removed)
	c.received.Bytes += r.bytes
	for _, typ := range referred {
		more, less := c.move(typ, moved)
		if len(more)+len(less) == 0 {
			continue
		}
		if typ == VirtualHostType { // one subscription without names, which lasts as long as the stream
			if len(more) == 0 || c.asked[typ] {
				continue
			}
			more = nil
		}
		if err := c.ask(s, typ, more, less); err != nil {
			return err
		}
	}
	return nil
}

// acknowledge ACKs a response. It runs after the subscriptions that follow from the response, and after the response's event: a server that
// gets the ACK has the subscriptions, and an observer of the ACK has the event.
func (c *Client) acknowledge(s stream, r response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.ack(r)
}

// counts are names by type, and by how many more resources refer to each.
type counts map[string]map[string]int

func (n counts) add(refs references, by int) {
	for typ, names := range refs {
		if n[typ] == nil {
			n[typ] = map[string]int{}
		}
		for _, name := range names {
			n[typ][name] += by
		}
	}
}

// store keeps a response's resources and deletes those that the response removes. It returns by how much the numbers of
// references to other resources change.
func (c *Client) store(r response, ev *Event) (counts, error) {
	held := c.held[r.typ]
	if held == nil {
		held = map[string]Held{}
		c.held[r.typ], c.absent[r.typ] = held, map[string]bool{}
	}
	moved := counts{}
	for _, res := range r.resources {
		refs, err := c.reader.references(r.typ, res)
		if err != nil {
			return nil, err
		}
		h := Held{Version: res.version, refs: refs}
		if c.Bodies {
			h.Body = res.body
		}
		moved.add(held[res.name].refs, -1)
		moved.add(refs, +1)
		held[res.name] = h
		delete(c.absent[r.typ], res.name)
		ev.Names = append(ev.Names, res.name)
	}
	for _, name := range r.removed {
		moved.add(held[name].refs, -1)
		delete(held, name)
		if _, asked := c.wanted[r.typ][name]; asked {
			c.absent[r.typ][name] = true
		}
		moved.add(references{r.typ: {name}}, 0) // if the resource was kept until now, it is dropped
	}
	return moved, nil
}

// move applies the changes in the numbers of references to names of a type. It returns, in order, the names to ask for,
// and the names to drop, with a route configuration's virtual hosts.
func (c *Client) move(typ string, moved counts) (more, less []string) {
	have := c.wanted[typ]
	if have == nil {
		have = map[string]int{}
		c.wanted[typ] = have
	}
	for name, n := range moved[typ] {
		before, asked := have[name]
		_, holds := c.held[typ][name]
		switch {
		case before+n > 0:
			have[name] = before + n
			if !asked {
				more = append(more, name)
			}
		case asked && (c.Prompt || typ == EndpointType || !holds):
			less = append(less, name)
			delete(have, name)
			delete(c.absent[typ], name)
		case asked:
			have[name] = 0
		}
	}
	for _, name := range less {
		moved.add(c.held[typ][name].refs, -1)
		delete(c.held[typ], name)
		if typ == RouteType {
			c.orphan(name)
		}
	}
	slices.Sort(more)
	slices.Sort(less)
	return more, less
}

// orphan drops the virtual hosts of a route configuration that nothing refers to any more.
func (c *Client) orphan(route string) {
	for host := range c.held[VirtualHostType] {
		if strings.HasPrefix(host, route+"/") {
			delete(c.held[VirtualHostType], host)
		}
	}
}
