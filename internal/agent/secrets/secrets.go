package secrets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"fairway/internal/agent/secrets/counted"
	"fairway/internal/agent/socket"
)

// Secrets serves a proxy its secrets. Make it with New, run it once; any goroutine may call the other methods at any time.
type Secrets struct {
	opts  Options
	store *store

	mu           sync.Mutex
	known        map[string]*Certificate // for Status, by name
	uses         map[string]*use         // of files that streams follow
	pair         *pair                   // the workload's own; nil before the first
	kept         *pair                   // that an earlier agent wrote to OutputDir; nil: none is served
	trust        trust                   // roots that the workload trusts
	asks         chan chan error         // of Renew; nil if the source cannot be asked
	controlPlane chan struct{}           // holds a token when the control plane has answered: the authority may be back too

	keptRefused atomic.Bool // the authority has refused the kept certificate
	counts      counted.Counts

	updating sync.Mutex // held while trust is changed and served, one change after the other; taken before mu

	ctx   context.Context // of Run; what follows files ends with it
	parts sync.WaitGroup  // goroutines that follow files
}

// use counts the streams that follow a file.
type use struct {
	streams int
	stop    context.CancelFunc
}

// Certificate is the visible state of a secret.
type Certificate struct {
	Name      string    `json:"name"`
	Identity  string    `json:"identity,omitempty"`
	Serial    string    `json:"serial,omitempty"` // hexadecimal; of roots the first one's
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"` // of roots: of the first that ends
	Roots     int       `json:"roots,omitempty"`   // how many, for roots
	Revoked   int       `json:"revoked,omitempty"` // how many certificates its CRLs name
	Version   string    `json:"version,omitempty"` // of roots: it changes with the content
	// when the control plane last sent them on its stream; zero: they came with the certificate, or from a file
	LastSent time.Time `json:"told,omitzero"`
	Renews   time.Time `json:"renews,omitzero"`   // when the next one is asked for
	Error    string    `json:"error,omitempty"`   // why the last attempt to replace it failed; empty: it did not
	Since    time.Time `json:"since,omitzero"`    // when it was last replaced
	Streams  int       `json:"streams"`           // of the proxy that follow it
	Current  int       `json:"current"`           // of those, how many have it in force
	Refused  int       `json:"refused,omitempty"` // of those, how many have refused it
}

// New checks the options. Nothing is opened or asked before Run.
func New(o Options) (*Secrets, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Secrets{
		opts: o, store: newStore(), controlPlane: make(chan struct{}, 1), known: map[string]*Certificate{}, uses: map[string]*use{},
	}
	if o.Authority != nil {
		a := *o.Authority // zero values of Authority mean defaults
		s.opts.Authority = &a
		a.setDefaults()
		s.asks = make(chan chan error)
	}
	return s, nil
}

// Run serves until ctx ends and calls up once the socket exists. It returns an error if it cannot serve at all; a source that fails
// is not an error. The socket is removed when it returns.
func (s *Secrets) Run(ctx context.Context, up func()) error {
	l, err := socket.Listen(socketName, s.opts.Socket)
	if err != nil {
		return err
	}
	defer os.Remove(s.opts.Socket) // gone already if the listener was closed
	g, ctx := errgroup.WithContext(ctx)
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	api := grpc.NewServer(s.opts.Token.Options()...)
	secretv3.RegisterSecretDiscoveryServiceServer(api, server{secrets: s})
	g.Go(func() error {
		if err := api.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
	g.Go(func() error { <-ctx.Done(); api.Stop(); return nil })
	if source := s.source(); source != nil {
		g.Go(func() error { return source(ctx) })
	}
	if s.opts.CRL != "" {
		g.Go(func() error { return s.followRevoked(ctx) })
	}
	up()
	err = g.Wait()
	s.parts.Wait()
	return err
}

// source returns the function that gets the workload's own certificate; nil if there is no source.
func (s *Secrets) source() func(context.Context) error {
	switch {
	case s.opts.Authority != nil:
		return (&renewer{secrets: s, authority: s.opts.Authority}).run
	case s.opts.SPIRE != "":
		return s.followSPIRE
	case s.opts.Files != nil:
		return s.followOwnFiles
	}
	return nil
}

// set puts the workload's own certificate and roots in force. Roots come first: peers may already have a certificate of a new root.
func (s *Secrets) set(p *pair, t *trusted, renews time.Time) error {
	id, err := verify(p, t, s.opts.ID, s.opts.Now())
	if err != nil {
		return err
	}
	cert, err := certificateResource(DefaultName, p)
	if err != nil {
		return err
	}
	if err := s.updateTrust(p, func(b *trust) { b.withCertificate, b.confirmed = t, false }); err != nil {
		return err
	}
	s.mu.Lock()
	roots := len(s.inForce().certs)
	own := s.describePair(DefaultName, p)
	own.Identity, own.Renews = id.String(), renews
	d := *own
	s.mu.Unlock()
	s.store.put(DefaultName, cert)
	s.opts.Log.Info("certificate", "identity", id.String(), "serial", d.Serial, "ends", d.NotAfter, "roots", roots, "renews", renews)
	return nil
}

// followRevoked serves the roots again when the CRL file changes.
func (s *Secrets) followRevoked(ctx context.Context) error {
	s.onChange(ctx, []string{s.opts.CRL}, func() error { return s.updateTrust(nil, func(*trust) {}) })
	return nil
}

// describePair and describeRoots note what Status returns; callers hold mu.
func (s *Secrets) describePair(name string, p *pair) *Certificate {
	leaf := p.certs[0]
	c := &Certificate{
		Name:      name,
		Serial:    leaf.SerialNumber.Text(16),
		NotBefore: leaf.NotBefore,
		NotAfter:  leaf.NotAfter,
		Since:     s.opts.Now(),
	}
	s.known[name] = c
	return c
}

func (s *Secrets) describeRoots(name string, t *trusted) {
	first := t.certs[0]
	for _, c := range t.certs {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	s.known[name] = &Certificate{
		Name:      name,
		Serial:    t.certs[0].SerialNumber.Text(16),
		NotBefore: first.NotBefore,
		NotAfter:  first.NotAfter,
		Roots:     len(t.certs),
		Since:     s.opts.Now(),
	}
}

// fail notes why a secret could not be replaced.
func (s *Secrets) fail(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known[name]
	if c == nil {
		c = &Certificate{Name: name}
		s.known[name] = c
	}
	c.Error = err.Error()
}

// Status returns the state of every secret, in order of names.
func (s *Secrets) Status() []Certificate {
	s.mu.Lock()
	var out []Certificate
	for _, name := range sortedKeys(s.known) {
		out = append(out, *s.known[name])
	}
	s.mu.Unlock()
	for i := range out {
		out[i].Streams, out[i].Current, out[i].Refused = s.store.followers(out[i].Name)
	}
	return out
}

// Ready returns nil once the workload has a certificate that is valid now; else why it has none. Without a source it returns nil.
func (s *Secrets) Ready() error {
	if s.source() == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known[DefaultName]
	switch {
	case c == nil:
		return errors.New("no certificate yet")
	case s.pair == nil:
		return fmt.Errorf("no certificate yet: %s", c.Error)
	case s.opts.Now().After(c.NotAfter):
		return fmt.Errorf("the certificate ended at %s: %s", stamp(c.NotAfter), c.Error)
	}
	return nil
}

// Renew asks the authority now, and returns once the new certificate is served, or with an error. Other sources renew by themselves.
func (s *Secrets) Renew(ctx context.Context) error {
	if s.asks == nil {
		return errors.New("certificates of SPIRE and from files are renewed there")
	}
	answer := make(chan error, 1)
	select {
	case s.asks <- answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settled waits until the proxy has the newest version of every secret that it follows in force.
func (s *Secrets) Settled(ctx context.Context) error { return s.store.settled(ctx) }

// The names of secrets from files, as Istio's control plane writes them into configuration.
const (
	certPrefix = "file-cert:"
	rootPrefix = "file-root:"
)

// want makes a name available while a stream follows it.
func (s *Secrets) want(name string) (release func(), err error) {
	load, files, err := s.fromFiles(name)
	if err != nil {
		return nil, err
	}
	if load == nil {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[name]
	if u == nil {
		ctx, stop := context.WithCancel(s.ctx)
		u = &use{stop: stop}
		s.uses[name] = u
		s.parts.Add(1)
		go func() {
			defer s.parts.Done()
			s.followFiles(ctx, name, load, files)
		}()
	}
	u.streams++
	return func() { s.release(name) }, nil
}

func (s *Secrets) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[name]
	if u.streams--; u.streams > 0 {
		return
	}
	u.stop()
	delete(s.uses, name)
	delete(s.known, name)
	s.store.remove(name)
}

// fromFiles reads a name; nil for the workload's own secrets.
func (s *Secrets) fromFiles(name string) (load func() (resource, error), files []string, err error) {
	switch {
	case name == DefaultName || name == RootName:
		return nil, nil, nil
	case strings.HasPrefix(name, certPrefix):
		chain, key, ok := strings.Cut(strings.TrimPrefix(name, certPrefix), "~")
		if !ok || chain == "" || key == "" {
			return nil, nil, fmt.Errorf("secret %q: want %s<certificate>~<key>", name, certPrefix)
		}
		return func() (resource, error) { return s.loadPair(name, chain, key) }, []string{chain, key}, nil
	case name == rootPrefix+systemName:
		file, err := s.opts.systemFile()
		if err != nil {
			file = systemFiles[0] // it may come; load says that it is not there
		}
		return func() (resource, error) { return s.loadSystem(name) }, []string{file}, nil
	case strings.HasPrefix(name, rootPrefix) && name != rootPrefix:
		file := strings.TrimPrefix(name, rootPrefix)
		return func() (resource, error) { return s.loadRoots(name, file) }, []string{file}, nil
	}
	return nil, nil, fmt.Errorf("there is no secret %q: want %s, %s, %s<certificate>~<key>, %s<roots> or %s", name, DefaultName,
		RootName, certPrefix, rootPrefix, rootPrefix+systemName)
}
