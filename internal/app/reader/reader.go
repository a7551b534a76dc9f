package reader

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/app/proof"
	"fairway/internal/compile/exported"
	"fairway/internal/identity"
	"fairway/internal/mesh"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// The node of a stream that reads the configuration says so in its metadata.
const (
	Generator = "GENERATOR"
	API       = "api"
)

// idPrefix begins the ids of readers. No node id of a proxy begins so, and no namespace.
const idPrefix = "reads configuration: "

// Options select the callers that may read, and how long a reader is remembered.
type Options struct {
	System string        // only identities of this namespace may read
	Linger time.Duration // how long a reader's resources are kept ready after its last stream
	Log    *slog.Logger
}

// Readers are the hooks of an xDS server that tells other control planes apart from proxies. They are safe for concurrent use.
type Readers struct {
	xds.Hooks
	opts  Options
	table *exported.Tables

	mu   sync.Mutex
	open map[library.ProxyID]*reading
}

// reading is a control plane that reads, or did a moment ago.
type reading struct {
	streams int
	leaves  *time.Timer // nil while it has a stream
}

var _ xds.Hooks = (*Readers)(nil)

// New returns hooks that hand everything which is not a reader's to others.
func New(opts Options, t *exported.Tables, others xds.Hooks) *Readers {
	return &Readers{Hooks: others, opts: opts, table: t, open: map[library.ProxyID]*reading{}}
}

// maxStreams is how many streams one reader may have, and maxReaders how many readers there may be.
const (
	maxStreams = 16
	maxReaders = 1000
)

// Connect admits a stream that reads the configuration if its caller may. Other streams are passed on to Hooks.
func (p *Readers) Connect(ctx context.Context, node *corev3.Node, from net.Addr) (library.ProxyID, error) {
	if node.GetMetadata().GetFields()[Generator].GetStringValue() != API {
		return p.Hooks.Connect(ctx, node, from)
	}
	proxy, err := proof.ParseNode(node)
	if err != nil {
		return "", err
	}
	caller := proof.Of(ctx).Caller().ID
	if err := p.may(caller, from); err != nil {
		p.opts.Log.Warn("the configuration is not told", "scope", "audit", "to", caller.String(), "address", from.String())
		return "", err
	}
	id := library.ProxyID(idPrefix + string(mesh.MakeProxyID(caller.Namespace, caller.ServiceAccount, string(proxy.ID))))
	return id, p.enter(id)
}

// may returns an error if a caller may not read the configuration.
func (p *Readers) may(caller identity.ID, from net.Addr) error {
	switch {
	case caller.ServiceAccount != "" && caller.Namespace == p.opts.System:
		return nil
	case caller.ServiceAccount != "":
		return status.Errorf(codes.PermissionDenied, "only service accounts of namespace %s may read the configuration, and %s is of %s",
			p.opts.System, caller.ServiceAccount, caller.Namespace)
	case identity.LocalPeer(from):
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "in plaintext only this machine may read the configuration: "+
		"connect to --secureGRPCAddr as a service account of namespace %s", p.opts.System)
}

func (p *Readers) enter(id library.ProxyID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.open[id]
	if r == nil {
		if len(p.open) >= maxReaders {
			return status.Errorf(codes.ResourceExhausted, "%d control planes read the configuration, the most that may", maxReaders)
		}
		r = &reading{}
		p.open[id] = r
		p.table.Readers.Set(mesh.ProxyID(id), struct{}{})
	}
	if r.streams >= maxStreams {
		return status.Errorf(codes.ResourceExhausted, "%d streams are open of this reader, the most that one may have", maxStreams)
	}
	if r.leaves != nil {
		r.leaves.Stop()
		r.leaves = nil
	}
	r.streams++
	return nil
}

// Disconnect takes a stream away.
func (p *Readers) Disconnect(id library.ProxyID) {
	if !Is(id) {
		p.Hooks.Disconnect(id)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.open[id]
	if r.streams--; r.streams == 0 {
		r.leaves = time.AfterFunc(p.opts.Linger, func() { p.forget(id) })
	}
}

// forget drops a reader that has not come back.
func (p *Readers) forget(id library.ProxyID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.open[id]; r != nil && r.streams == 0 {
		delete(p.open, id)
		p.table.Readers.Delete(mesh.ProxyID(id))
	}
}

// Rejected notes that a reader rejected a resource. The reader reports the reason to its own users.
func (p *Readers) Rejected(r xds.Rejection) {
	if !Is(r.Proxy) {
		p.Hooks.Rejected(r)
		return
	}
	p.opts.Log.Warn("another control plane refuses an object", "turn", r.Turn, "reader", string(r.Proxy), "type", r.Type,
		"objects", strings.Join(r.Names, " "), "because", r.Detail)
}

// Is reports whether a stream's id is a reader's.
func Is(id library.ProxyID) bool { return strings.HasPrefix(string(id), idPrefix) }
