package secrets_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/agent/secrets"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/identity/service"
	"fairway/internal/limit"
	"fairway/internal/xdstype"
	"fairway/test/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// world is an authority on a socket, and an agent's secrets that ask it.
type world struct {
	ca      *ca.CA
	tokens  *authn.JoinTokens
	dir     string
	address string
	served  *grpc.Server
	log     *rig.Log
	skew    time.Duration // of the authority's clock
}

func newWorld(t *testing.T, change ...func(*world)) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), log: &rig.Log{}}
	for _, f := range change {
		f(w)
	}
	clock := func() time.Time { return time.Now().Add(w.skew) }
	o := ca.DefaultOptions()
	o.Plugged, o.Now = "", clock
	var err error
	if w.ca, err = ca.Open(o); err != nil {
		t.Fatal(err)
	}
	w.tokens = authn.NewJoinTokens(w.dir, clock, slog.New(slog.DiscardHandler))
	trust, err := identity.NewTrust("cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	quietly := slog.New(slog.DiscardHandler)
	config, err := (&service.Serving{CA: w.ca, Names: []string{"istiod.istio-system.svc"}, Now: clock, Log: quietly}).Config()
	if err != nil {
		t.Fatal(err)
	}
	w.served = grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	(&service.Service{
		CA: w.ca, Callers: authn.NewGate(
			authn.Methods{authn.Certificates{Roots: w.ca.Pool, Trust: trust, Now: clock}, w.tokens},
			authn.NewFailures(limit.Rate{}, clock), clock,
		),
		Trust: trust, Limits: authn.NewLimits(limit.Rate{}, limit.Rate{}, clock), Audit: quietly,
	}).Register(w.served)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = l.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); w.served.Serve(l) }()
	t.Cleanup(func() { w.served.Stop(); <-done })
	w.file(t, "root.pem", w.ca.Roots())
	return w
}

// file writes a file of the world's, by renaming, and returns its path.
func (w *world) file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path+".tmp", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) join(t *testing.T, id identity.ID) string {
	t.Helper()
	token, err := w.tokens.Create(id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return w.file(t, "token", []byte(token+"\n"))
}

func (w *world) options(t *testing.T) secrets.Options {
	t.Helper()
	return secrets.Options{
		Socket: filepath.Join(w.dir, "sds.sock"), Now: time.Now, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Authority: &secrets.Authority{
			Addresses: []string{w.address}, Roots: filepath.Join(w.dir, "root.pem"), Token: filepath.Join(w.dir, "token"),
		},
	}
}

// run starts secrets and stops them when the test ends.
func run(t *testing.T, o secrets.Options) *secrets.Secrets {
	t.Helper()
	s, _ := runs(t, o)
	return s
}

func runs(t *testing.T, o secrets.Options) (*secrets.Secrets, func()) {
	t.Helper()
	s, err := secrets.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	up, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- s.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-over:
		cancel()
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// proxy follows one secret as Envoy does.
type proxy struct {
	t     *testing.T
	conn  *grpc.ClientConn
	state secretv3.SecretDiscoveryService_StreamSecretsClient
}

func connect(t *testing.T, socket string) *proxy {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &proxy{t: t, conn: conn}
}

func (p *proxy) ask(name string) *proxy {
	p.t.Helper()
	var err error
	if p.state, err = secretv3.NewSecretDiscoveryServiceClient(p.conn).StreamSecrets(bounded(p.t)); err != nil {
		p.t.Fatal(err)
	}
	if err := p.state.Send(
		&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "n"}, TypeUrl: secretType, ResourceNames: []string{name}},
	); err != nil {
		p.t.Fatal(err)
	}
	return p
}

const secretType = xdstype.SecretURL

// next receives a secret and accepts it.
func (p *proxy) next() *tlsv3.Secret {
	p.t.Helper()
	r, err := p.state.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	out := decode(p.t, r.Resources[0])
	names = append(names, out.Name)
	if err := p.state.Send(
		&discoveryv3.DiscoveryRequest{TypeUrl: secretType, ResourceNames: names, VersionInfo: r.VersionInfo, ResponseNonce: r.Nonce},
	); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func decode(t *testing.T, a *anypb.Any) *tlsv3.Secret {
	t.Helper()
	var out tlsv3.Secret
	if err := a.UnmarshalTo(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func leafOf(t *testing.T, s *tlsv3.Secret) *x509.Certificate {
	t.Helper()
	c := s.GetTlsCertificate()
	pair, err := tls.X509KeyPair(c.GetCertificateChain().GetInlineBytes(), c.GetPrivateKey().GetInlineBytes())
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// TestCertificateFromTheAuthority: a join token turns into a certificate, which renews itself with itself; roots come
// beside it; nothing is on disk.
func TestCertificateFromTheAuthority(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	o.ID = web
	s := run(t, o)
	p := connect(t, o.Socket).ask("default")
	first := leafOf(t, p.next())
	if got, err := identity.FromCertificate(first); err != nil || got != web {
		t.Errorf("%v %v", got, err)
	}
	roots := connect(t, o.Socket).ask("ROOTCA")
	if got := roots.next().GetValidationContext().GetTrustedCa().GetInlineBytes(); !bytes.Equal(got, w.ca.Roots()) {
		t.Errorf("roots %s", got)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	for range 3 { // the join token is used up: the certificate proves itself
		if err := s.Renew(bounded(t)); err != nil {
			t.Fatal(err)
		}
		next := leafOf(t, p.next())
		if next.SerialNumber.Cmp(first.SerialNumber) == 0 || bytes.Equal(next.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
			t.Error("the same certificate or key again")
		}
		first = next
	}
	if err := s.Settled(bounded(t)); err != nil {
		t.Error(err)
	}
	all := s.Status()
	if len(all) != 2 || all[0].Name != "ROOTCA" || all[1].Name != "default" || all[1].Identity != web.String() ||
		all[1].Serial != first.SerialNumber.Text(16) ||
		all[1].Streams != 1 || all[1].Current != 1 ||
		all[1].Error != "" ||
		!all[1].NotAfter.Equal(first.NotAfter) {
		t.Errorf("%+v", all)
	}
	if d := all[1].Renews.Sub(all[1].Since); d < 9*time.Hour || d > 15*time.Hour {
		t.Errorf("a certificate of 24 hours is replaced after %s", d)
	}
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("PRIVATE KEY")) {
			t.Errorf("%s holds a private key", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(w.log.String(), "PRIVATE KEY") {
		t.Error("the log holds a private key")
	}
}

// TestRootRotation: the new roots reach the proxy at each step, and the agent still knows the authority, although its own file of
// roots is old by then.
func TestRootRotation(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	s := run(t, o)
	roots := connect(t, o.Socket).ask("ROOTCA")
	count := func() int {
		return bytes.Count(roots.next().GetValidationContext().GetTrustedCa().GetInlineBytes(), []byte("BEGIN"))
	}
	if n := count(); n != 1 {
		t.Fatalf("%d roots at first", n)
	}
	for range 2 {
		for _, step := range []struct {
			do   func() error
			want int
		}{{w.ca.Rotate, 2}, {w.ca.Advance, 2}, {w.ca.Advance, 1}} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			if err := s.Renew(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if n := count(); n != step.want {
				t.Errorf("%s: %d roots, want %d", w.ca.Status().Phase, n, step.want)
			}
		}
	}
}

// TestDelta: the incremental protocol, with several names on one stream, and a client that reconnects with what it holds.
func TestDelta(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	s := run(t, o)
	p := connect(t, o.Socket)
	open := func(initial map[string]string) secretv3.SecretDiscoveryService_DeltaSecretsClient {
		t.Helper()
		d, err := secretv3.NewSecretDiscoveryServiceClient(p.conn).DeltaSecrets(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Send(
			&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl:                 secretType,
				ResourceNamesSubscribe:  []string{"default", "ROOTCA"},
				InitialResourceVersions: initial,
			},
		); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open(nil)
	held := map[string]string{}
	take := func() (names []string) {
		t.Helper()
		r, err := d.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range r.Resources {
			held[res.Name] = res.Version
			names = append(names, res.Name)
		}
		if err := d.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: secretType, ResponseNonce: r.Nonce}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	for len(held) < 2 {
		take()
	}
	if err := s.Renew(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if names := take(); fmt.Sprint(names) != "[default]" {
		t.Errorf("a renewal sends %v, want the certificate alone", names)
	}
	d.CloseSend()
	d = open(held)
	if err := s.Settled(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if names := take(); fmt.Sprint(names) != "[default]" {
		t.Errorf("after reconnecting with everything the first that comes is %v, want the renewed certificate", names)
	}
}

func TestRefusalByTheProxyIsTold(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	s := run(t, o)
	p := connect(t, o.Socket).ask("default")
	r, err := p.state.Recv()
	if err != nil {
		t.Fatal(err)
	}
	nack := &discoveryv3.DiscoveryRequest{
		TypeUrl:       secretType,
		ResourceNames: []string{"default"},
		ResponseNonce: r.Nonce,
		ErrorDetail:   status.New(codes.Internal, "no such curve").Proto(),
	}
	if err := p.state.Send(nack); err != nil {
		t.Fatal(err)
	}
	w.log.Await(t, "no such curve")
	if err := s.Renew(bounded(t)); err != nil {
		t.Fatal(err)
	}
	p.next()
	if err := s.Settled(bounded(t)); err != nil {
		t.Error(err)
	}
}

func TestUnknownNames(t *testing.T) {
	w := newWorld(t)
	o := w.options(t)
	o.Authority = nil
	run(t, o)
	for _, name := range []string{"", "else", "file-cert:x", "file-cert:~y", "file-root:", "kubernetes://x"} {
		if _, err := connect(t, o.Socket).ask(name).state.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", name, err)
		}
	}
	p := connect(t, o.Socket)
	stream, err := secretv3.NewSecretDiscoveryServiceClient(p.conn).StreamSecrets(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"})
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another type: %v", err)
	}
}

// pairFiles makes a certificate with the world's authority and writes it to files.
func (w *world) pairFiles(t *testing.T, name string) (chain, key string) {
	t.Helper()
	c, err := w.ca.ServerCertificate([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return w.file(t, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})),
		w.file(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestFilesAreFollowed: secrets that configuration takes from files come when the files come, change with them, and
// stay when they are damaged.
func TestFilesAreFollowed(t *testing.T) {
	w := newWorld(t)
	o := w.options(t)
	o.Authority = nil
	s := run(t, o)
	if err := s.Ready(); err != nil {
		t.Errorf("without a source there is nothing to wait for: %v", err)
	}
	chain, key := filepath.Join(w.dir, "tls.crt"), filepath.Join(w.dir, "tls.key")
	p := connect(t, o.Socket).ask("file-cert:" + chain + "~" + key)
	w.log.Await(t, "no such file")
	w.pairFiles(t, "one")
	if err := leafOf(t, p.next()).VerifyHostname("one"); err != nil {
		t.Error(err)
	}
	w.file(t, "tls.crt", []byte("half"))
	w.log.Await(t, "failed to find any PEM data")
	w.pairFiles(t, "two")
	if err := leafOf(t, p.next()).VerifyHostname("two"); err != nil {
		t.Error(err)
	}
	roots := connect(t, o.Socket).ask("file-root:" + filepath.Join(w.dir, "root.pem"))
	if got := roots.next().GetValidationContext().GetTrustedCa().GetInlineBytes(); !bytes.Equal(got, w.ca.Roots()) {
		t.Errorf("roots %s", got)
	}
	if all := s.Status(); len(all) != 2 || all[1].Streams != 1 {
		t.Errorf("%+v", all)
	}
	counts := rig.Metrics(t, s.Collector())
	if n := counts["num_file_secret_failures_total"]; n < 2 {
		t.Errorf("%v reads of files have failed, want at least 2", n)
	}
	if left := counts[`cert_expiry_seconds{resource_name="file-cert:`+chain+"~"+key+`"}`]; left <= 0 {
		t.Errorf("the certificate of the files ends in %v s", left)
	}
	p.state.CloseSend()
	roots.state.CloseSend()
	for {
		if _, err := p.state.Recv(); err != nil {
			break
		}
	}
	if _, err := roots.state.Recv(); err == nil {
		t.Error("a stream that was closed goes on")
	}
	if all := s.Status(); len(all) != 0 {
		t.Errorf("nobody follows them, and still: %+v", all)
	}
}

// TestOwnCertificateFromFiles: somebody else makes them (workload-spiffe-credentials).
func TestOwnCertificateFromFiles(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	out := w.options(t)
	out.Socket, out.Authority.OutputDir = filepath.Join(w.dir, "other.sock"), filepath.Join(w.dir, "credentials")
	maker := run(t, out)
	if err := maker.Renew(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"key.pem": 0o600, "cert-chain.pem": 0o644, "root-cert.pem": 0o644} {
		if info, err := os.Stat(filepath.Join(w.dir, "credentials", name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	o := w.options(t)
	in := func(name string) string { return filepath.Join(w.dir, "credentials", name) }
	o.Authority, o.Files = nil, &secrets.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}
	s := run(t, o)
	p := connect(t, o.Socket).ask("default")
	one := leafOf(t, p.next())
	if err := maker.Renew(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if two := leafOf(t, p.next()); two.Equal(one) {
		t.Error("the same certificate again")
	}
	if got := s.Status()[1]; got.Identity != web.String() {
		t.Errorf("%+v", got)
	}
	if err := s.Renew(bounded(t)); err == nil {
		t.Error("files are renewed by asking")
	}
	// A machine that starts again shows what it wrote.
	again := w.options(t)
	again.Socket = filepath.Join(w.dir, "again.sock")
	again.Authority.CertDir, again.Authority.Token = filepath.Join(w.dir, "credentials"), ""
	if got := leafOf(t, connectTo(t, run(t, again), again.Socket).next()); got.URIs[0].String() != web.String() {
		t.Errorf("%v", got.URIs)
	}
}

func connectTo(t *testing.T, _ *secrets.Secrets, socket string) *proxy {
	return connect(t, socket).ask("default")
}

func TestRevokedList(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	o.CRL = filepath.Join(w.dir, "crl.pem")
	run(t, o)
	p := connect(t, o.Socket).ask("ROOTCA")
	if v := p.next().GetValidationContext(); v.Crl != nil {
		t.Error("a list without a file")
	}
	list := pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte("anything: Envoy reads it")})
	w.file(t, "crl.pem", list)
	if v := p.next().GetValidationContext(); !bytes.Equal(v.GetCrl().GetInlineBytes(), list) {
		t.Errorf("list %v", v.Crl)
	}
}

// TestWhatGoesWrong: each error names a remedy, and leaves nothing half done; a fault that can go away by itself is retried.
func TestWhatGoesWrong(t *testing.T) {
	stranger := newWorld(t)
	for _, c := range []struct {
		name   string
		world  func(*world)
		change func(t *testing.T, w *world, o *secrets.Options)
		want   string
	}{
		{
			name:   "no token",
			change: func(t *testing.T, w *world, _ *secrets.Options) { os.Remove(filepath.Join(w.dir, "token")) },
			want:   "mount a token there",
		},
		{name: "an empty token", change: func(t *testing.T, w *world, _ *secrets.Options) { w.file(t, "token", nil) }, want: "is empty"},
		{
			name:   "a token that is a folder",
			change: func(t *testing.T, w *world, o *secrets.Options) { o.Authority.Token = w.dir },
			want:   "not a regular file",
		},
		{
			name:   "a token of nobody",
			change: func(t *testing.T, w *world, _ *secrets.Options) { w.file(t, "token", []byte("a.b.c")) },
			want:   "refuses (Unauthenticated): credentials refused: unknown token",
		},
		{
			name:   "no roots",
			change: func(t *testing.T, w *world, o *secrets.Options) { o.Authority.Roots = filepath.Join(w.dir, "none") },
			want:   "CA_ROOT_CA",
		},
		{
			name:   "another mesh's roots",
			change: func(t *testing.T, w *world, _ *secrets.Options) { w.file(t, "root.pem", stranger.ca.Roots()) },
			want:   "none of the roots in",
		},
		{
			name:   "another name",
			change: func(t *testing.T, w *world, o *secrets.Options) { o.Authority.ServerName = "istiod.elsewhere" },
			want:   "ISTIOD_SAN",
		},
		{name: "nobody there", change: func(t *testing.T, w *world, _ *secrets.Options) { w.served.Stop() }, want: "does not answer"},
		{name: "somebody else's token", change: func(t *testing.T, w *world, o *secrets.Options) {
			o.ID = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "db"}
		},
			want: "the certificate is for spiffe://cluster.local/ns/shop/sa/web; this workload is spiffe://cluster.local/ns/shop/sa/db"},
		{
			name:   "for too long",
			change: func(t *testing.T, w *world, o *secrets.Options) { o.Authority.TTL = 10000 * time.Hour },
			want:   "MAX_WORKLOAD_CERT_TTL",
		},
		{
			name:   "a clock behind the authority's",
			world:  func(w *world) { w.skew = time.Hour },
			change: func(*testing.T, *world, *secrets.Options) {},
			want:   "not valid by this machine's clock",
		},
		{name: "a clock ahead of the authority's", change: func(t *testing.T, w *world, o *secrets.Options) {
			o.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
		},
			want: "set the clocks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var changes []func(*world)
			if c.world != nil {
				changes = append(changes, c.world)
			}
			w := newWorld(t, changes...)
			w.join(t, web)
			o := w.options(t)
			c.change(t, w, &o)
			s := run(t, o)
			w.log.Await(t, "no new certificate")
			if err := s.Ready(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if all := s.Status(); len(all) != 1 || all[0].Error == "" || all[0].Serial != "" {
				t.Errorf("%+v", all)
			}
		})
	}
}

func TestUnreadableToken(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	w := newWorld(t)
	if err := os.Chmod(w.join(t, web), 0); err != nil {
		t.Fatal(err)
	}
	run(t, w.options(t))
	w.log.Await(t, "let this user")
}

// TestSockets: paths where no socket can be opened are errors.
func TestSockets(t *testing.T) {
	w := newWorld(t)
	o := w.options(t)
	o.Authority = nil
	long := o
	long.Socket = "/tmp/" + strings.Repeat("x", 104)
	if _, err := secrets.New(long); err == nil || !strings.Contains(err.Error(), "109 bytes long, and the kernel takes 107") {
		t.Errorf("%v", err)
	}
	s, err := secrets.New(secrets.Options{Socket: filepath.Join(w.file(t, "file", nil), "below"), Now: time.Now, Log: o.Log})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("%v", err)
	}
	no := o
	no.Socket = w.file(t, "file", nil)
	s, _ = secrets.New(no)
	if err := s.Run(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("%v", err)
	}
	// One that was left behind is taken over; one that is served is not.
	l, err := net.Listen("unix", o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	_, stop := runs(t, o)
	if info, err := os.Stat(o.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	s, _ = secrets.New(o)
	if err := s.Run(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "another agent serves") {
		t.Errorf("%v", err)
	}
	stop()
	if _, err := os.Stat(o.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	w := newWorld(t)
	for want, change := range map[string]func(*secrets.Options){
		"CA_ADDR":               func(o *secrets.Options) { o.Authority.Addresses = nil },
		"choose one":            func(o *secrets.Options) { o.SPIRE = "/s" },
		"chain, key and roots":  func(o *secrets.Options) { o.Authority, o.Files = nil, &secrets.Files{Chain: "x"} },
		"GRACE_PERIOD_RATIO":    func(o *secrets.Options) { o.Authority.Grace = 1 },
		"WORKLOAD_RSA_KEY_SIZE": func(o *secrets.Options) { o.Authority.RSABits = 1024 },
		"has no path":           func(o *secrets.Options) { o.Socket = "" },
	} {
		o := w.options(t)
		change(&o)
		if _, err := secrets.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
