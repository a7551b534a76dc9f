package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/app/environment"
	"fairway/internal/app/lease"
	"fairway/internal/app/proof"
	"fairway/internal/app/sharing"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/identity/safefile"
	"fairway/internal/identity/service"
	"fairway/internal/state"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
)

// Server serves --secureGRPCAddr: the certificate authority, and xDS for authenticated callers. A nil *Server serves nothing.
type Server struct {
	log      *slog.Logger
	listener net.Listener
	tls      *tls.Config
	ca       *ca.CA // nil if another authority signs certificates
	tokens   *authn.JoinTokens
	callers  authn.Barred // of xDS and pages: join tokens are for certificates only
	gate     *authn.Gate  // before callers
	service  *service.Service
	grpc     *grpc.Server
	leases   *lease.Leases
	own      identity.ID        // of the control plane, for its own calls
	shared   *state.Shared      // what control planes share in a store; nil: it is in files
	folder   *state.FolderLease // of the folder, if it is in files that are kept; nil: it is not
	problems sharing.Problems
}

// Program is what the secure address needs from the program.
type Program struct {
	Addr      string // host:port to listen on; empty: there is no secure address
	Namespace string // the root namespace: agents look for the control plane under names of it
	Revision  string // of the control plane: its Service has it in its name, unless it is the default one
	Registry  prometheus.Registerer
	// Trust is the trust configuration of the mesh: MeshTrust reads it.
	Trust identity.Trust
	// Reviewed knows tokens of a platform; nil: there is none.
	Reviewed authn.Method
	Log      *slog.Logger
}

// New opens the socket and the authority; nil if the program names no secure address.
func New(o Options, p Program) (*Server, error) {
	if p.Addr == "" {
		return nil, nil
	}
	s := &Server{log: p.Log, leases: lease.New(p.Log)}
	if err := s.open(o, p); err != nil {
		s.closeShared()
		return nil, err
	}
	var err error
	if s.listener, err = net.Listen("tcp", p.Addr); err != nil {
		s.closeShared()
		return nil, fmt.Errorf("--secureGRPCAddr: %w; choose another port or stop what listens there", err)
	}
	return s, nil
}

// open makes the parts in the order of their dependencies.
func (s *Server) open(o Options, p Program) error {
	var methods authn.Methods
	trust := p.Trust
	s.own = identity.ID{TrustDomain: trust.Domain(), Namespace: p.Namespace, ServiceAccount: ownAccount}
	shown := &service.Serving{
		CertFile: o.CertFile,
		KeyFile:  o.KeyFile,
		Names:    append(ServerNames(p.Namespace, p.Revision), o.Names...),
		Now:      time.Now,
		Log:      p.Log,
	}
	if !o.NoCA {
		var err error
		if s.shared, err = o.Sharing.Open(p.Log); err != nil {
			return err
		}
		if s.shared == nil || o.Sharing.KeyFile != "" {
			o.CA.State = writable(o.CA.State, p.Log)
		}
		o.CA.Shared = s.shared
		o.Sharing.KeepCopy(s.shared, o.CA.State)
		if s.shared == nil && o.CA.State != "" {
			s.folder = state.NewFolderLease(o.CA.State, environment.Replica(), state.DefaultTimes(), p.Log)
			o.CA.Lease = s.folder
		}
		o.CA.TrustDomain, o.CA.Now, o.CA.Log = trust.Domain(), time.Now, p.Log
		authority, err := ca.Open(o.CA)
		if err != nil {
			return err
		}
		s.ca, shown.CA = authority, authority
		methods = append(methods, authn.Certificates{Roots: authority.Pool, Revoked: authority.Revoked, Trust: trust, Now: time.Now})
	}
	if o.ClientRoots != "" {
		roots, err := ReadRoots(o.ClientRoots)
		if err != nil {
			return fmt.Errorf("--caCertFile: %w", err)
		}
		others := authn.Certificates{Roots: func() *x509.CertPool { return roots }, Trust: trust, Now: time.Now}
		if s.ca != nil {
			others.Revoked = s.ca.Revoked
		}
		methods = append(methods, others)
	}
	if len(o.Issuers) > 0 {
		tokens, err := authn.NewTokens(trust, o.Issuers, authn.TokenOptions{Now: time.Now, Log: p.Log})
		if err != nil {
			return err
		}
		methods = append(methods, tokens)
	}
	if p.Reviewed != nil {
		methods = append(methods, p.Reviewed)
	}
	s.callers = authn.Barred{Method: methods, Why: s.barred}
	s.gate = authn.NewGate(s.callers, authn.NewFailures(o.Failures, time.Now), time.Now)
	var err error
	if s.tls, err = shown.Config(); err != nil || s.ca == nil {
		return err
	}
	return s.openService(o, trust, methods, p.Registry)
}

// barred returns why an identity is shut out; nil if it is not.
func (s *Server) barred(id identity.ID) error {
	if s.ca == nil {
		return nil
	}
	err := s.ca.Barred(id)
	if errors.Is(err, ca.ErrUnknown) {
		return fmt.Errorf("%w: %w", authn.ErrUnavailable, err)
	}
	return err
}

func (s *Server) openService(o Options, trust identity.Trust, callers authn.Methods, registry prometheus.Registerer) error {
	metrics, err := service.NewMetrics(registry, s.ca, time.Now)
	if err != nil {
		return err
	}
	if s.shared != nil {
		err = sharing.Register(registry, s.shared)
	} else if s.folder != nil {
		err = sharing.Register(registry, s.folder)
	}
	if err != nil {
		return err
	}
	switch {
	case s.shared != nil:
		s.tokens = authn.NewSharedJoinTokens(s.shared, time.Now, s.log)
	case o.CA.State != "":
		s.tokens = authn.NewJoinTokens(o.CA.State, time.Now, s.log)
	}
	if s.tokens != nil {
		callers = append(callers, s.tokens)
	}
	s.service = &service.Service{
		CA:      s.ca,
		Callers: s.gate.Through(authn.Barred{Method: callers, Why: s.barred}),
		Trust:   trust,
		Limits:  authn.NewLimits(o.Address, o.Identity, time.Now),
		Audit:   s.log.With("scope", "audit"),
		Metrics: metrics,
	}
	return nil
}

// writable gives up the default folder if it cannot be made, as in a container with a read-only file system. A folder that the user
// named must work.
func writable(dir string, log *slog.Logger) string {
	if dir != stateDir {
		return dir
	}
	if err := safefile.Folder(dir); err != nil {
		log.Warn("the default folder for the root cannot be made; name another with --caStateDir", "error", err)
		return ""
	}
	return dir
}

// ServerNames are the names under which Istio's agents look for the control plane of a revision, and API servers for its
// webhooks.
func ServerNames(namespace, revision string) []string {
	var out []string
	services := []string{"istiod", "istiod-remote", "istio-pilot"}
	if revision != "" && revision != "default" {
		services = append(services, "istiod-"+revision)
	}
	for _, service := range services {
		out = append(out, service+"."+namespace+".svc", service+"."+namespace+".svc.cluster.local", service+"."+namespace)
	}
	if namespace != "istio-system" {
		out = append(out, "istiod.istio-system.svc") // the default name in agents
	}
	return out
}

// ReadRoots reads a file of certificates of authorities, in PEM.
func ReadRoots(path string) (*x509.CertPool, error) {
	text, err := safefile.Read(path, 1<<20)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}

// MeshTrust takes trust domain and aliases from the options or, as Istio does, from the mesh configuration as it is at the start. file
// need not exist.
func MeshTrust(o Options, file string, decoder *config.Decoder) (identity.Trust, error) {
	domain, aliases := o.TrustDomain, o.Aliases
	said := config.DefaultMeshConfig()
	if file != "" {
		text, err := safefile.Read(file, disk.MaxFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may contain the trust domain
			return identity.Trust{}, fmt.Errorf("--meshConfig: %w", err)
		}
		for _, doc := range config.Split(file, text) {
			if object, _ := decoder.DecodeMeshConfig(doc); object != nil {
				if m, ok := object.Spec.(*meshconfig.MeshConfig); ok {
					said = m
				}
			}
		}
	}
	if domain == "" {
		domain = said.GetTrustDomain()
	}
	if domain == "" {
		domain = "cluster.local"
	}
	if aliases == nil {
		aliases = said.GetTrustDomainAliases()
	}
	return identity.NewTrust(domain, aliases...)
}

// Memory limits for a caller before it is authenticated: the headers of a call, and bytes that are received before they are read.
const (
	maxHeaders = 64 << 10
	unread     = 64 << 10
)

// Register makes the gRPC server, with services; options are those that every server of xDS has.
func (s *Server) Register(options []grpc.ServerOption, services ...interface{ Register(grpc.ServiceRegistrar) }) {
	if s == nil {
		return
	}
	s.grpc = grpc.NewServer(
		append(options[:len(options):len(options)], grpc.MaxHeaderListSize(maxHeaders), grpc.InitialWindowSize(unread),
			grpc.Creds(lease.Closable(credentials.NewTLS(s.tls))), grpc.ChainStreamInterceptor(s.leases.Intercept))...)
	for _, one := range services {
		one.Register(s.grpc)
	}
	if s.service != nil {
		s.service.Register(s.grpc)
	}
}

// Close closes the socket of one that was never run.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.listener.Close()
	s.closeShared()
}

func (s *Server) closeShared() {
	if s.shared != nil {
		s.shared.Close()
	}
}

// Run serves until stop, the authority until ctx ends. Certificates are given out at once: agents need them before they
// can ask for anything else.
func (s *Server) Run(ctx context.Context, in Bundles, start func(string, func() error)) {
	if s == nil {
		return
	}
	if s.ca != nil {
		start("certificate authority", func() error { return s.ca.Run(ctx) })
		s.startShared(ctx, start)
		start("roots", func() error { return s.followRoots(ctx, in) })
	}
	start("secure xds", func() error {
		if err := s.grpc.Serve(s.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
}

// startShared runs what follows the store, or holds the lease of the folder, until ctx ends.
func (s *Server) startShared(ctx context.Context, start func(string, func() error)) {
	if s.folder != nil {
		start("folder of the state", func() error { return s.folder.Run(ctx) })
	}
	if s.shared == nil {
		return
	}
	start("shared state", func() error {
		defer s.shared.Close()
		return s.shared.Run(ctx)
	})
	start("join tokens", func() error { return s.tokens.Clean(ctx) })
}

// Stop ends all streams and calls, and Run's server.
func (s *Server) Stop() {
	if s != nil {
		s.grpc.Stop()
		s.listener.Close()
	}
}

// Guard has xDS know its callers: on the secure address a proxy may be itself alone.
func (s *Server) Guard(hooks xds.Hooks) xds.Hooks {
	if s == nil {
		return hooks
	}
	return guard{hooks, s}
}

type guard struct {
	xds.Hooks
	secure *Server
}

// Connect is called with a stream's first request.
func (g guard) Connect(ctx context.Context, node *corev3.Node, addr net.Addr) (library.ProxyID, error) {
	if authn.OverTLS(ctx) {
		caller, err := g.admit(ctx, node)
		if err != nil {
			return "", err
		}
		ctx = proof.With(ctx, caller)
	}
	return g.Hooks.Connect(ctx, node, addr)
}

// Arrive checks a stream before anything is read from it: on the secure address only authenticated callers may send. A nil *Server
// admits every stream.
func (s *Server) Arrive(ctx context.Context, _ net.Addr) error {
	if s == nil || !authn.OverTLS(ctx) {
		return nil
	}
	before, shown := s.roots(), authn.FromContext(ctx)
	caller, err := s.gate.Authenticate(ctx, shown)
	if err != nil {
		return service.Status(err)
	}
	s.leases.Arrived(ctx, caller, before)
	return nil
}

// Proved returns the identity that a stream's certificate proves, before anything is read from it and without a call to another
// server; empty: it has no certificate that verifies. A nil *Server returns an empty one.
func (s *Server) Proved(ctx context.Context) string {
	if s == nil || !authn.OverTLS(ctx) {
		return ""
	}
	caller, ok := s.gate.Certified(ctx, authn.FromContext(ctx))
	if !ok {
		return ""
	}
	return caller.ID.String()
}

// Holder returns the identity that opened a stream; empty: none was proved. A nil *Server returns an empty one.
func (s *Server) Holder(ctx context.Context) string {
	if s == nil {
		return ""
	}
	caller, _, ok := s.leases.Caller(ctx)
	if !ok {
		return ""
	}
	return caller.ID.String()
}

// admit authenticates the caller, and lets the stream go on for as long as that holds.
func (g guard) admit(ctx context.Context, node *corev3.Node) (authn.Caller, error) {
	caller, before, ok := g.secure.leases.Caller(ctx)
	if !ok {
		return caller, status.Error(codes.Unauthenticated, "the caller was not authenticated")
	}
	proxy, err := proof.ParseNode(node)
	if err != nil {
		return caller, err
	}
	if err := service.NodeMismatch(caller.ID, proxy.Namespace, proxy.ServiceAccount); err != nil {
		return caller, err
	}
	g.secure.grant(ctx, caller, node.GetId(), before)
	return caller, nil
}

// grant lets a stream go on for as long as its certificate or token is valid. before is closed if that may have changed meanwhile.
func (s *Server) grant(ctx context.Context, caller authn.Caller, as string, before <-chan struct{}) {
	s.leases.Grant(ctx, caller, as)
	select {
	case <-before: // roots or CRLs
		s.leases.Check(ctx, s.callers)
	default:
	}
}

// roots returns a channel that is closed when the authority's roots or CRLs have changed; nil if there is no authority.
func (s *Server) roots() <-chan struct{} {
	if s.ca == nil {
		return nil
	}
	return s.ca.Changed()
}

// Addr returns the socket's address; empty if there is none.
func (s *Server) Addr() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Shared returns the state that control planes share in a store; nil: it is in files.
func (s *Server) Shared() *state.Shared {
	if s == nil {
		return nil
	}
	return s.shared
}

// Ready returns why no certificates are issued yet; nil: they are, or another authority does it.
func (s *Server) Ready() error {
	if s == nil || s.ca == nil {
		return nil
	}
	return s.ca.Unknown()
}

// Authority returns the certificate authority; nil if there is none.
func (s *Server) Authority() *ca.CA {
	if s == nil {
		return nil
	}
	return s.ca
}

// JoinTokens makes and revokes the tokens that machines join with; nil if no folder keeps them.
func (s *Server) JoinTokens() *authn.JoinTokens {
	if s == nil {
		return nil
	}
	return s.tokens
}

// TLS returns the TLS configuration for other servers with the same certificate; the caller may change it.
func (s *Server) TLS() *tls.Config { return s.tls.Clone() }

// Bundle returns the roots, in PEM, that verify the certificate of TLS; an error: they do not verify it.
func (s *Server) Bundle() ([]byte, error) {
	if s.ca == nil {
		return nil, errors.New("another authority signs certificates (ENABLE_CA_SERVER=false), and its roots are not known: caBundle is " +
			"not updated")
	}
	shown, err := s.tls.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	others := x509.NewCertPool()
	for _, der := range shown.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(c)
		}
	}
	leaf := shown.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(shown.Certificate[0]); err != nil {
			return nil, err
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: s.ca.Pool(), Intermediates: others}); err != nil {
		return nil, fmt.Errorf("the certificate of --tlsCertFile is not from the mesh's authority: caBundle is not updated: %w", err)
	}
	return s.ca.Roots(), nil
}

// Authenticate authenticates a caller with the same credentials as xDS, and with the same limits.
func (s *Server) Authenticate(ctx context.Context, shown authn.Credentials) (authn.Caller, error) {
	return s.gate.Authenticate(ctx, shown)
}

// CalledNames are the names under which users of this machine may call the control plane: those of ServerNames, more, and the machine's.
func CalledNames(namespace, revision string, more []string) []string {
	names := append(ServerNames(namespace, revision), more...)
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return names
}
