package secrets

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"fairway/internal/agent/planes"
	"fairway/internal/identity"
	"fairway/internal/identity/safefile"
)

// The part of a life that is left when a certificate is replaced, and how much that varies at random.
const defaultGrace, defaultJitter = 0.5, 0.1

// systemRoots in place of a file of roots means the machine's own.
const systemRoots = "SYSTEM"

// The names of files in CertDir and OutputDir.
const (
	chainFile = "cert-chain.pem"
	keyFile   = "key.pem"
	rootFile  = "root-cert.pem"
	crlFile   = "ca-crl.pem" // in OutputDir alone
)

func (a *Authority) setDefaults() {
	if a.Grace == 0 && a.Jitter == 0 {
		a.Grace, a.Jitter = defaultGrace, defaultJitter
	}
	if a.Timeout == 0 {
		a.Timeout = 10 * time.Second
	}
}

// name returns the name in the certificate of the authority at an address.
func (a *Authority) name(address string) string {
	if a.ServerName != "" {
		return a.ServerName
	}
	return serverName(address)
}

// serverName returns the name in the authority's certificate: the host of its address, or Istio's name if that is this machine.
func serverName(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if identity.OnThisMachine(host) {
		return "istiod.istio-system.svc"
	}
	return host
}

func newKey(rsaBits int) (crypto.Signer, error) {
	if rsaBits > 0 {
		return rsa.GenerateKey(rand.Reader, rsaBits)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// newRequest proves that the key is here. The credentials, not the request, say who the client is.
func newRequest(k crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// read splits an authority's answer into the chain and, its last element, the roots to trust.
func read(answer []string, k crypto.Signer) (*pair, *trusted, error) {
	if len(answer) < 2 {
		return nil, nil, fmt.Errorf("the authority answers with %d certificates; want the chain and its root", len(answer))
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	var chain strings.Builder
	for _, part := range answer[:len(answer)-1] {
		chain.WriteString(strings.TrimSpace(part) + "\n")
	}
	p, err := newPair([]byte(chain.String()), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		return nil, nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	t, err := newTrusted([]byte(answer[len(answer)-1]))
	if err != nil {
		return nil, nil, fmt.Errorf("the authority's root: %w", err)
	}
	return p, t, nil
}

// nextAfter is how long one of several replicas of the authority may take before the next one is asked.
const nextAfter = 1500 * time.Millisecond

// ask sends a request over the network, to the replicas of the authority in random order until one answers. The request has the same key
// for each: a join token that a lost answer has used up admits that key again.
func (s *Secrets) ask(ctx context.Context, csr []byte) ([]string, error) {
	var away []error
	order := planes.Shuffled(s.opts.Authority.Addresses)
	for i, address := range order {
		one, cancel := ctx, func() {}
		if i < len(order)-1 {
			one, cancel = context.WithTimeout(ctx, nextAfter)
		}
		out, err := s.askAt(one, address, csr)
		cancel()
		if err == nil {
			if len(order) > 1 {
				s.opts.Log.Info("a certificate has come", "authority", address)
			}
			return out, nil
		}
		if len(order) == 1 || !errors.Is(err, errAway) || ctx.Err() != nil {
			return nil, errors.Join(append(away, err)...)
		}
		away = append(away, err)
	}
	return nil, errors.Join(away...)
}

// errAway marks an error of an authority that may be away: another replica may answer.
var errAway = errors.New("away")

// awayError is such an error; its text is the reason alone.
type awayError struct{ error }

// Is finds errAway.
func (awayError) Is(target error) bool { return target == errAway }

// Unwrap returns the reason.
func (e awayError) Unwrap() error { return e.error }

// askAt asks the authority at an address. Connections are rare, so none is kept.
func (s *Secrets) askAt(ctx context.Context, address string, csr []byte) ([]string, error) {
	a := s.opts.Authority
	roots, err := s.authorityRoots()
	if err != nil {
		return nil, err
	}
	show, token, err := s.credentials()
	if err != nil {
		return nil, err
	}
	check := &handshake{roots: roots, name: a.name(address), now: s.opts.Now, file: a.Roots, address: address}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(check.config(show))),
		grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	if a.ClusterID != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "clusterid", a.ClusterID)
	}
	out, err := security.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, &security.IstioCertificateRequest{
		Csr: string(csr), ValidityDuration: int64(a.TTL / time.Second),
	})
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Internal {
		return nil, awayError{check.explain(err)}
	} else if err != nil {
		return nil, check.explain(err)
	}
	return out.GetCertChain(), nil
}

// authorityRoots returns the roots for the authority's own certificate: the file's, and those that the authority sent, which are
// newer after its root was replaced. nil: the machine's own.
func (s *Secrets) authorityRoots() (*x509.CertPool, error) {
	a := s.opts.Authority
	if a.Roots == systemRoots {
		return nil, nil
	}
	pool := x509.NewCertPool()
	files := []string{a.Roots}
	if a.CertDir != "" {
		files = append(files, filepath.Join(a.CertDir, rootFile))
	}
	some := false
	var failed error
	for _, f := range files {
		if f == "" {
			continue
		}
		t, err := readRoots(f)
		if err != nil {
			failed = err
			continue
		}
		some = true
		for _, c := range t.certs {
			pool.AddCert(c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.inForce(); t != nil {
		some = true
		for _, c := range t.certs {
			pool.AddCert(c)
		}
	}
	if !some {
		return nil, fmt.Errorf("roots to know the certificate authority by: %w; mount them there or name another file with CA_ROOT_CA",
			failed)
	}
	return pool, nil
}

// controlPlaneRoots returns the same roots for other parts of the agent; without an authority, those that came with certificates.
func (s *Secrets) controlPlaneRoots() (*x509.CertPool, error) {
	if s.opts.Authority != nil {
		return s.authorityRoots()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.inForce()
	if t == nil {
		return nil, errors.New("nothing is known yet to know the control plane by: no certificate has come")
	}
	return t.pool(), nil
}

// joinPrefix begins one-time tokens, which are used up by the first certificate.
const joinPrefix = "fwjoin."

// credentials returns what is shown to the authority: a platform's token if there is one, since the platform removes it when the
// workload ends; else the certificate in force, or one from files; a join token if there is nothing else, or only a certificate
// that an earlier agent kept and the authority has refused.
func (s *Secrets) credentials() (*tls.Certificate, string, error) {
	a := s.opts.Authority
	token, tokenErr := readToken(a.Token)
	if a.CertDir == "" && token != "" && !strings.HasPrefix(token, joinPrefix) {
		return nil, token, nil
	}
	own, kept := s.ownCertificate(), s.keptInForce()
	if own != nil && !(kept && (a.CertDir != "" || s.keptRefused.Load())) {
		return own, "", nil
	}
	if a.CertDir != "" {
		p, err := readPair(filepath.Join(a.CertDir, chainFile), filepath.Join(a.CertDir, keyFile))
		if err == nil && s.opts.Now().Before(p.certs[0].NotAfter) {
			c, err := tls.X509KeyPair(p.chain, p.key.PEM())
			return &c, "", err
		}
		if err == nil {
			err = fmt.Errorf("the certificate in %s ended at %s", a.CertDir, stamp(p.certs[0].NotAfter))
		}
		tokenErr = errors.Join(err, tokenErr)
	}
	if token != "" {
		return nil, token, nil
	}
	if own != nil {
		return own, "", nil
	}
	return nil, "", fmt.Errorf("nothing to show to the certificate authority: %w", tokenErr)
}

// ownCertificate returns the certificate in force while it is valid.
func (s *Secrets) ownCertificate() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair == nil || !s.opts.Now().Before(s.pair.certs[0].NotAfter) {
		return nil
	}
	c, err := tls.X509KeyPair(s.pair.chain, s.pair.key.PEM())
	if err != nil {
		return nil
	}
	return &c
}

func readToken(path string) (string, error) {
	if path == "" {
		return "", errors.New("no file with a token is named")
	}
	text, err := safefile.Read(path, longestFile)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("the token: %w; let this user (uid %d) read it: for a projected volume with fsGroup or defaultMode",
			err, os.Getuid())
	case err != nil:
		return "", fmt.Errorf("the token: %w; mount a token there or name another file", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("the token: %s is empty", path)
	}
	return token, nil
}

// handshake checks the authority's certificate, and keeps why it is invalid: gRPC passes that on only as text.
type handshake struct {
	roots         *x509.CertPool
	name          string
	now           func() time.Time
	file, address string

	mu  sync.Mutex
	err error
}

func (h *handshake) config(show *tls.Certificate) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: h.name,
		InsecureSkipVerify: true, // VerifyConnection verifies instead
		VerifyConnection: func(state tls.ConnectionState) error {
			err := h.verify(state.PeerCertificates)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.err = err
			return err
		},
	}
	if show != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show, nil }
	}
	return c
}

func (h *handshake) verify(shown []*x509.Certificate) error {
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots: h.roots, Intermediates: identity.Intermediates(shown), CurrentTime: h.now(), DNSName: h.name,
	})
	var stranger x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &stranger):
		return fmt.Errorf(
			"the certificate authority at %s shows a certificate that none of the roots in %s verifies: the file belongs to another "+
				"mesh, or is older than a replaced root",
			h.address,
			h.file,
		)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf(
			"the certificate of the authority at %s is %w: valid from %s to %s, and the clock says %s; set the clocks of "+
				"this machine and of the authority's",
			h.address,
			ErrClock,
			stamp(invalid.Cert.NotBefore),
			stamp(invalid.Cert.NotAfter),
			stamp(h.now()),
		)
	case errors.As(err, &name):
		return fmt.Errorf(
			"the certificate authority at %s shows a certificate for %s, not for %s; name what it has with ISTIOD_SAN, "+
				"or have it made for this name with ISTIOD_CUSTOM_HOST",
			h.address,
			strings.Join(shown[0].DNSNames, ", "),
			h.name,
		)
	}
	return err
}

// explain returns an error that says what a failed call means.
func (h *handshake) explain(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	st := status.Convert(err)
	switch st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		if strings.Contains(st.Message(), "first record does not look like a TLS handshake") {
			return fmt.Errorf("what listens at %s speaks plaintext, and a certificate authority speaks TLS; name its port with CA_ADDR, "+
				"usually 15012", h.address)
		}
		return fmt.Errorf("the certificate authority at %s does not answer: %s", h.address, st.Message())
	case codes.Unimplemented:
		return fmt.Errorf("what listens at %s is not a certificate authority: %s", h.address, st.Message())
	}
	return &refusal{h.address, st}
}

// refusal is an answer of the authority's that gives no certificate.
type refusal struct {
	address string
	status  *status.Status
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the certificate authority at %s refuses (%s): %s", r.address, r.status.Code(), r.status.Message())
}

// GRPCStatus lets status.Code read the reason.
func (r *refusal) GRPCStatus() *status.Status { return r.status }

// write puts certificate, key and roots into files if OutputDir is set. If that fails, the proxy has them all the same.
func (s *Secrets) write(p *pair) error {
	dir := s.opts.Authority.OutputDir
	if dir == "" {
		return nil
	}
	s.updating.Lock()
	defer s.updating.Unlock()
	s.mu.Lock()
	t := s.inForce()
	s.mu.Unlock()
	for _, f := range []struct {
		name    string
		content []byte
		mode    os.FileMode
	}{{keyFile, p.key.PEM(), 0o600}, {chainFile, p.chain, 0o644}} {
		if err := safefile.Write(filepath.Join(dir, f.name), f.content, f.mode); err != nil {
			s.opts.Log.Error("the certificate is not written to files (OUTPUT_CERTS)", "error", err)
			return nil
		}
	}
	s.writeRoots(t)
	return nil
}
