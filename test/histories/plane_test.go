package histories

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/file"
	"fairway/internal/xds"
	"fairway/test/rig"
)

// control is a control plane that reads the world.
type control interface {
	// dial returns the address that a proxy connects to and its credentials; nil: plaintext without credentials.
	dial(p *proxy) (address string, shown credentials.TransportCredentials)
	// settle returns once the control plane has read the folder, if it reads one, as other has, and every client is served
	// all that it is due by that.
	settle(ctx context.Context, other control, clients []*client) error
	// exact reports whether that is so once settle has returned, or within moments.
	exact() bool
	// problems are the problems and statuses that users see; empty if they depend on proxies that were connected before.
	problems() string
	stop() error
}

// planes starts control planes in this process. All of them share the expensive parts.
type planes struct {
	folder  *folder // nil: they read a cluster
	kube    string  // the kubeconfig of that
	decoder *config.Decoder
	options app.Options                 // of all; they share the state of one authority
	pairs   map[string]*tls.Certificate // of proxies, by namespace/account
	roots   *x509.CertPool
	linger  time.Duration
	grace   time.Duration
	adjust  func(*app.Options) // adds other sources to the folder; nil: none
	// words and variables say so to programs.
	words, variables []string
	grpc             string // where streams in plaintext are taken; empty: at any port

	beside func() source.Source // makes one more source; nil: there is none
}

// inProcess is a control plane in this process.
type inProcess struct {
	planes    *planes
	discovery *app.Discovery
	rules     *read // nil: it reads a cluster
	cancel    context.CancelFunc
	ended     chan error
}

// quiet is how long a removed file must be gone. Files change by renames, so nothing else waits.
const quiet = 2 * time.Millisecond

// fitted are the options of one that reads the folder.
func (p *planes) fitted() app.Options {
	opts := p.options
	opts.HTTPAddr, opts.Grace, opts.ProxyLinger = "", p.grace, p.linger
	opts.HealthStart, opts.HealthGrace = 0, time.Hour // reports of agents count until the control plane ends
	opts.NewStreams = 100_000
	if p.folder == nil {
		opts.Registries, opts.Kubeconfig = []string{"Kubernetes"}, p.kube
	}
	if p.grpc != "" {
		opts.GRPCAddr = p.grpc
	}
	if p.adjust != nil {
		p.adjust(&opts)
	}
	return opts
}

// source reads the folder.
func (p *planes) source() (*read, error) {
	inner, err := file.New(file.Options{
		Name:         "rules",
		Dirs:         []string{p.folder.rules()},
		MeshConfig:   p.folder.meshFile(),
		MeshNetworks: p.folder.netsFile(),
		Decoder:      p.decoder,
		Quiet:        quiet,
	})
	return &read{
		Source:   inner,
		files:    map[source.ShardKey][]*config.Object{},
		problems: map[string][]mesh.Problem{},
		news:     make(chan struct{}),
	}, err
}

func (p *planes) start(ctx context.Context) (*inProcess, error) {
	out := &inProcess{planes: p, ended: make(chan error, 1)}
	var sources []source.Source
	var err error
	if p.folder != nil {
		if out.rules, err = p.source(); err != nil {
			return nil, err
		}
		sources = append(sources, out.rules)
	}
	if p.beside != nil {
		sources = append(sources, p.beside())
	}
	opts, said := p.fitted(), &rig.Log{}
	opts.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if out.discovery, err = app.NewDiscovery(opts, sources...); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	out.cancel = cancel
	go func() { out.ended <- out.discovery.Run(running) }()
	select {
	case <-out.discovery.Synced():
		return out, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("the control plane does not sync; it says\n%s", said), out.stop())
	}
}

func (c *inProcess) stop() error {
	c.cancel()
	return <-c.ended
}

// exact: what an API server or a registry says arrives when it arrives.
func (c *inProcess) exact() bool { return c.rules != nil && c.planes.adjust == nil }

func (c *inProcess) dial(p *proxy) (string, credentials.TransportCredentials) {
	if p.Account == "" {
		return c.discovery.GRPCAddr(), nil
	}
	return c.discovery.SecureAddr(), credentials.NewTLS(&tls.Config{
		RootCAs:      c.planes.roots,
		ServerName:   "istiod.istio-system.svc",
		Certificates: []tls.Certificate{*c.planes.pairs[p.Namespace+"/"+p.Account]},
	})
}

func (c *inProcess) settle(ctx context.Context, other control, clients []*client) error {
	if o, ok := other.(*inProcess); ok && o != c && c.rules != nil {
		if err := c.rules.await(ctx, o.rules); err != nil {
			return err
		}
	}
	for {
		if err := c.discovery.Settled(ctx); err != nil {
			return fmt.Errorf("it does not settle: %w; %s", err, describe(c.discovery.Streams().Status()))
		}
		if !slices.ContainsFunc(c.discovery.Problems(), func(p mesh.Problem) bool { return p.Code == "Waiting" }) {
			break
		}
		select {
		case <-time.After(c.planes.grace):
		case <-ctx.Done():
			return fmt.Errorf("some objects wait for others: %w", ctx.Err())
		}
	}
	for _, x := range clients {
		if err := c.discovery.Streams().WaitUntil(ctx,
			func(all []xds.ProxyStatus) bool { return slices.ContainsFunc(all, x.isServed) }); err != nil {
			return fmt.Errorf("%s is not served: %w; %v; %s", x.proxy.Name, err, x.err(), describe(c.discovery.Streams().Status()))
		}
	}
	if err := c.discovery.Settled(ctx); err != nil {
		return fmt.Errorf("it does not settle: %w; %s", err, describe(c.discovery.Streams().Status()))
	}
	for _, s := range c.discovery.Streams().Status() {
		if s.Diverged > 0 {
			return fmt.Errorf("an audit found %d differences on the stream of %s", s.Diverged, s.Proxy)
		}
	}
	return nil
}

// describe prints the streams that keep a control plane from being settled.
func describe(all []xds.ProxyStatus) string {
	var b strings.Builder
	for _, s := range all {
		if !s.Synced {
			fmt.Fprintf(&b, "%s turn %d:", s.Proxy, s.Turn)
			for typ, t := range s.Types {
				fmt.Fprintf(&b, " %s %d pending, sent %v, acknowledged %v;", typ[strings.LastIndexByte(typ, '.')+1:], t.Pending,
					t.Sent, t.Acked)
			}
		}
	}
	return b.String()
}

func (c *inProcess) problems() string {
	if c.planes.linger > time.Second {
		return ""
	}
	var b strings.Builder
	for _, p := range c.discovery.Problems() {
		fmt.Fprintln(&b, p)
	}
	statuses, err := c.discovery.Rows("gatewayapi/statuses")
	if err != nil {
		return err.Error()
	}
	return b.String() + statuses
}

// read is the source of the rules, and notes the rules that it handed over.
type read struct {
	source.Source

	mu       sync.Mutex
	files    map[source.ShardKey][]*config.Object
	problems map[string][]mesh.Problem
	news     chan struct{} // closed with the next batch
}

// Run implements source.Source.
func (r *read) Run(ctx context.Context, sink source.Sink) error {
	return r.Source.Run(ctx, tap{r, sink})
}

type tap struct {
	read *read
	to   source.Sink
}

func (t tap) Apply(u source.Update) {
	t.to.Apply(u)
	r := t.read
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range u.Shards { // each is whole
		if r.files[file.Key] = file.Rows.Objects; len(file.Rows.Objects) == 0 {
			delete(r.files, file.Key)
		}
	}
	for file, problems := range u.Problems {
		if r.problems[file] = problems; len(problems) == 0 {
			delete(r.problems, file)
		}
	}
	close(r.news)
	r.news = make(chan struct{})
}

// await returns once the source has handed over what the other has: what a source says of a folder is the same whatever came before.
func (r *read) await(ctx context.Context, other *read) error {
	for {
		others := other.latest()
		r.mu.Lock()
		diff, news := r.differs(other), r.news
		r.mu.Unlock()
		if diff == "" {
			return nil
		}
		select {
		case <-news:
		case <-others: // it may be synced a moment before the rules that it handed over are noted here
		case <-ctx.Done():
			return fmt.Errorf("the source of rules does not say of the folder what a new one says: %s: %w", diff, ctx.Err())
		}
	}
}

// latest is closed with the next batch.
func (r *read) latest() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news
}

func (r *read) differs(other *read) string {
	other.mu.Lock()
	defer other.mu.Unlock()
	for file, objects := range other.files {
		if !slices.EqualFunc(objects, r.files[file], config.Same) {
			return file.Part
		}
	}
	for file := range r.files {
		if len(other.files[file]) == 0 {
			return file.Part
		}
	}
	for file, problems := range other.problems {
		if !slices.Equal(problems, r.problems[file]) {
			return file
		}
	}
	for file := range r.problems {
		if len(other.problems[file]) == 0 {
			return file
		}
	}
	return ""
}
