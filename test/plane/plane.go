// Package plane runs a control plane inside a test, with proxies that speak its protocol, for tests of the programs'
// outer parts (pages, command line). Every call that changes something returns once the change is in force and every
// connected proxy has acknowledged it, so tests need not wait for anything.
package plane

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/memory"
	"fairway/test/ads"
)

// patience is how long anything may take before the test fails.
const patience = 30 * time.Second

// Plane is a control plane that runs until its test ends.
type Plane struct {
	Discovery *app.Discovery
	Source    *memory.Source

	decoder *config.Decoder
	wrong   map[string]bool // files with problems
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // of Run; read it after ended
}

// Options are those of a control plane on sockets of its own that reads no files.
func Options() app.Options {
	opts := app.DefaultOptions()
	opts.GRPCAddr, opts.HTTPAddr, opts.MonitorAddr = "127.0.0.1:0", "127.0.0.1:0", ""
	opts.MeshConfig, opts.Networks = "", ""
	opts.Registries = []string{"Memory"} // also where the tests run inside a cluster
	opts.Shutdown = time.Millisecond
	return opts
}

// Start runs a control plane and waits until it serves.
func Start(t testing.TB, opts app.Options, more ...source.Source) *Plane {
	t.Helper()
	p := Run(t, opts, more...)
	p.await(t, "the control plane does not sync", func(ctx context.Context) error {
		select {
		case <-p.Discovery.Synced():
			return nil
		case <-p.ended:
			return fmt.Errorf("it ended: %w", p.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return p
}

// Run is Start without the wait.
func Run(t testing.TB, opts app.Options, more ...source.Source) *Plane {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Plane{Source: memory.New("memory"), decoder: decoder, wrong: map[string]bool{}, ended: make(chan struct{})}
	p.Discovery, err = app.NewDiscovery(opts, append([]source.Source{p.Source}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		defer close(p.ended)
		p.err = p.Discovery.Run(ctx)
	}()
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("the control plane ended with %v", err)
		}
	})
	return p
}

// Stop ends the control plane and returns what Run returned. It may be called again.
func (p *Plane) Stop() error {
	p.stop()
	<-p.ended
	return p.err
}

// Address is where proxies connect, and URL where pages are.
func (p *Plane) Address() string { return p.Discovery.GRPCAddr() }

// URL is the address of a page.
func (p *Plane) URL(path string) string { return "http://" + p.Discovery.HTTPAddr() + path }

// await fails the test if do takes too long.
func (p *Plane) await(t testing.TB, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Holding returns a source with the objects of a YAML text, for a control plane that must know them before it serves
// any proxy. If a control plane comes back without them, it first removes them from its proxies.
func Holding(t testing.TB, name, text string) source.Source {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := memory.New(name)
	out.Apply(decode(decoder, name, text))
	return out
}

// decode reads what a file of that name would hold.
func decode(decoder *config.Decoder, file, text string) source.Update {
	update := source.Update{Shards: make([]source.Shard, 1), Problems: map[string][]mesh.Problem{file: nil}}
	for _, doc := range config.Split(file, []byte(text)) {
		object, problems := decoder.Decode(doc)
		update.Problems[file] = append(update.Problems[file], problems...)
		if rows := &update.Shards[0].Rows; object != nil {
			rows.Objects = append(rows.Objects, object)
		}
	}
	return update
}

// Settle waits until all changes so far are in force everywhere.
func (p *Plane) Settle(t testing.TB) {
	t.Helper()
	p.await(t, "the mesh does not settle", p.Discovery.Settled)
}

// Apply sets all objects of a YAML text at once, as if they were in a file of that name. Text that cannot be decoded is
// a problem of the file, as it would be of a real one.
func (p *Plane) Apply(t testing.TB, file, text string) {
	t.Helper()
	update := decode(p.decoder, file, text)
	if found := len(update.Problems[file]) > 0; !found && !p.wrong[file] {
		update.Problems = nil
	} else {
		p.wrong[file] = found
	}
	p.Source.Apply(update)
	p.Settle(t)
}

// Delete takes an object away.
func (p *Plane) Delete(t testing.TB, kind config.Kind, namespace, name string) {
	t.Helper()
	p.Source.Delete(config.Key{Kind: kind, Namespace: namespace, Name: name})
	p.Settle(t)
}

// Proxy describes a proxy; empty fields have defaults.
type Proxy struct {
	Name      string // "web-1"
	Namespace string // "shop"
	IP        string // "10.0.0.9"
	Type      string // "sidecar"
	Labels    map[string]string
	SotW      bool // speak the state-of-the-world protocol
	Tables    bool // its agent resolves names, and keeps the tables
	Secrets   bool // it keeps the bodies of its resources
	Plain     bool // it has no identity, so it cannot speak mutual TLS

	Interception string // "NONE"; empty: the mesh's

	Identity *tls.Certificate // shown at the secure address; nil: plaintext
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Node is what the proxy says of itself.
func (x Proxy) Node() *corev3.Node {
	ns, ip := orElse(x.Namespace, "shop"), orElse(x.IP, "10.0.0.9")
	labels := map[string]any{}
	for k, v := range x.Labels {
		labels[k] = v
	}
	said := map[string]any{"NAMESPACE": ns, "LABELS": labels, "INSTANCE_IPS": ip, "ISTIO_VERSION": "1.31.1", "CLUSTER_ID": "Kubernetes"}
	if x.Tables {
		said["DNS_CAPTURE"] = "true"
	}
	if x.Plain {
		said["FAIRWAY_IDENTITY"] = "none"
	}
	if x.Interception != "" {
		said["INTERCEPTION_MODE"] = x.Interception
	}
	meta, err := structpb.NewStruct(said)
	if err != nil {
		panic(err) // strings and maps of strings always fit
	}
	return &corev3.Node{Id: fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", orElse(x.Type, "sidecar"), ip, x.Name, ns, ns), Metadata: meta}
}

// Client is a proxy at a plane.
type Client struct {
	*ads.Client
	plane *Plane

	more chan struct{} // holds a token when something has come
	done chan struct{} // closed when a stream ended by itself

	mu  sync.Mutex
	err error // of the stream that ended
}

// Connect connects a proxy, waits until it holds all that it is due, and disconnects it when the test ends.
func (p *Plane) Connect(t testing.TB, x Proxy) *Client {
	t.Helper()
	c := &Client{plane: p, more: make(chan struct{}, 1)}
	c.Client = ads.New(x.Node(), ads.NewReader(), c.take)
	c.SotW, c.Tables, c.Bodies = x.SotW, x.Tables, x.Tables || x.Secrets
	if x.Identity != nil {
		c.Credentials = p.Credentials(x.Identity)
	}
	c.Reconnect(t)
	t.Cleanup(c.Disconnect)
	return c
}

// Reconnect opens a new stream instead of the last one, with the resources that the client holds, and waits until it holds all that it is
// due.
func (c *Client) Reconnect(t testing.TB) {
	t.Helper()
	c.Disconnect()
	c.done = make(chan struct{})
	target := c.plane.Address()
	if c.Credentials != nil {
		target = c.plane.Discovery.SecureAddr()
	}
	if err := c.Client.Connect(context.Background(), target); err != nil {
		t.Fatal(err)
	}
	c.plane.await(t, c.Node.Id+" does not get through", func(ctx context.Context) error {
		for !c.Complete() {
			select {
			case <-c.more:
			case <-c.done:
				return c.Err()
			case <-ctx.Done():
				return fmt.Errorf("%w; it holds %s", ctx.Err(), c.State())
			}
		}
		return c.plane.Discovery.Connected(ctx, c.Node.Id, c.Asked())
	})
	c.plane.Settle(t)
}

// Ended is closed when the stream was ended by the other side; Err then says how.
func (c *Client) Ended() <-chan struct{} { return c.done }

// Err is how the stream ended; nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Client) take(ev ads.Event) {
	select {
	case c.more <- struct{}{}:
	default:
	}
	if ev.Err != nil {
		c.mu.Lock()
		c.err = ev.Err
		c.mu.Unlock()
		close(c.done)
	}
}
