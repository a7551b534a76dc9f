package pushed

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/limit"
	"fairway/internal/mcpwire"
)

// Entry is a source that connects, with the rules for callers that may push as it.
type Entry struct {
	Name string // "mcp-sink://galley"
	// Here lets this machine push, in plaintext. Nothing else is looked at then.
	Here bool
	// Roots reads the trusted authorities; nil: those of the mesh. It is called for each stream.
	Roots func() (*x509.CertPool, error)
	// Callers are names: SPIFFE ids and DNS names. A certificate must have one of them. A certificate of the mesh has a SPIFFE id
	// only.
	Callers []string
	// Serve takes a stream until it ends, and returns its status.
	Serve func(grpc.ServerStream) error
}

// Knows returns the entry that lets a caller push. It decides by the identity that a certificate of the mesh proves (the zero ID:
// there is none), or by the certificates as they were presented, leaf first and not verified.
type Knows = func(id identity.ID, shown []*x509.Certificate) (entry string, may bool)

// Options of Entries.
type Options struct {
	// Prove authenticates the caller of a stream with TLS, and asks knows about it. Its error is a gRPC status; nil: the caller may
	// push, for as long as the stream's context lasts.
	Prove func(ctx context.Context, knows Knows) error
	// Refused is called for each stream that was refused, and must return quickly.
	Refused func(from net.Addr, err error)
	Log     *slog.Logger
}

// Entries are those that there are. They are safe for concurrent use.
type Entries struct {
	opts Options
	rate *limit.Keyed[string]

	mu    sync.Mutex
	all   []*Entry
	ready bool
}

// A source may connect so often, and so often at once: one that comes takes the place of the one before.
const (
	perSecond = 1
	atOnce    = 10
)

// New returns none.
func New(o Options) *Entries {
	return &Entries{opts: o, rate: limit.New[string](limit.Rate{PerSecond: perSecond, Burst: atOnce}, time.Now)}
}

// Add has an entry counted until remove is called. Streams that it has by then are for its source to end.
func (e *Entries) Add(one Entry) (remove func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, &one)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = slices.DeleteFunc(e.all, func(o *Entry) bool { return o == &one })
	}
}

// Ready says that the entries are there which the mesh configuration named at the start. Until then callers are asked to come again.
func (e *Entries) Ready() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = true
}

// now returns the present entries; false: they are not known yet.
func (e *Entries) now() ([]*Entry, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all), e.ready
}

// Register adds the service to a gRPC server.
func (e *Entries) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: mcpwire.SinkService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: mcpwire.Stream, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, w grpc.ServerStream) error { return e.serve(w) },
		}},
	}, e)
}

var errNotAllowed = status.Error(codes.PermissionDenied,
	"plaintext pushes from this address are not allowed: no entry of configSources permits this caller")

// serve hands a stream to the source of its entry.
func (e *Entries) serve(w grpc.ServerStream) error {
	var from net.Addr = &net.TCPAddr{}
	if p, ok := peer.FromContext(w.Context()); ok && p.Addr != nil {
		from = p.Addr
	}
	one, err := e.admit(w.Context(), from)
	if err != nil {
		if status.Code(err) != codes.Unavailable { // else the next time it may be let in
			e.opts.Refused(from, err)
		}
		return err
	}
	e.opts.Log.Info("a source connects, and pushes", "scope", "audit", "source", one.Name, "address", from.String())
	return one.Serve(w)
}

// admit finds the entry as which a caller may push.
func (e *Entries) admit(ctx context.Context, from net.Addr) (*Entry, error) {
	all, ready := e.now()
	if !ready {
		return nil, status.Error(codes.Unavailable, "the control plane is starting; try again")
	}
	var one *Entry
	if authn.OverTLS(ctx) {
		err := e.opts.Prove(ctx, func(id identity.ID, shown []*x509.Certificate) (string, bool) {
			if one = find(all, id, shown, time.Now()); one == nil {
				return "", false
			}
			return one.Name, true
		})
		if err != nil {
			return nil, err
		}
	} else if at := slices.IndexFunc(all, func(o *Entry) bool { return o.Here && identity.LocalPeer(from) }); at >= 0 {
		one = all[at]
	}
	switch {
	case one == nil:
		return nil, errNotAllowed
	case !e.rate.Allow(one.Name):
		return nil, status.Errorf(codes.ResourceExhausted, "%s connects too often; try again in a few seconds", one.Name)
	}
	return one, nil
}

// find finds the entry of a caller; nil: there is none.
func find(all []*Entry, id identity.ID, shown []*x509.Certificate, now time.Time) *Entry {
	for _, one := range all {
		switch {
		case one.Here:
		case one.Roots == nil:
			if id != (identity.ID{}) && slices.Contains(one.Callers, id.String()) {
				return one
			}
		case believed(one, shown, now):
			return one
		}
	}
	return nil
}

// mostShown is how many certificates are looked at.
const mostShown = 10

// believed reports whether certificates are of a caller that an entry names. The name is checked first: that costs less than
// verifying the signatures.
func believed(one *Entry, shown []*x509.Certificate, now time.Time) bool {
	if len(shown) == 0 || len(shown) > mostShown || !named(shown[0], one.Callers) {
		return false
	}
	roots, err := one.Roots()
	if err != nil {
		return false // its source says so, too
	}
	_, err = shown[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: identity.Intermediates(shown), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// named reports whether a certificate has one of some names. A wildcard in the certificate does not match the names that it covers.
func named(leaf *x509.Certificate, names []string) bool {
	for _, uri := range leaf.URIs {
		if slices.Contains(names, uri.String()) {
			return true
		}
	}
	return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return slices.Contains(names, strings.ToLower(name)) })
}
