package service_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/identity/service"
	"fairway/internal/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var web = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}

// world is an authority behind its service on a socket.
type world struct {
	ca       *ca.CA
	tokens   *authn.JoinTokens
	address  string
	audit    *bytes.Buffer
	registry *prometheus.Registry
	service  *service.Service
}

func serve(t testing.TB, limits *authn.Limits) *world {
	t.Helper()
	o := ca.DefaultOptions()
	o.Plugged = ""
	authority, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		ca:       authority,
		tokens:   authn.NewJoinTokens(t.TempDir(), time.Now, slog.New(slog.DiscardHandler)),
		audit:    &bytes.Buffer{},
		registry: prometheus.NewRegistry(),
	}
	trust, err := identity.NewTrust("cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := service.NewMetrics(w.registry, authority, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.service = &service.Service{
		CA: authority, Callers: authn.NewGate(
			authn.Methods{authn.Certificates{Roots: authority.Pool, Trust: trust, Now: time.Now}, w.tokens},
			authn.NewFailures(limit.Rate{}, time.Now), time.Now),
		Trust: trust, Limits: limits, Audit: slog.New(slog.NewJSONHandler(w.audit, nil)), Metrics: metrics,
	}
	config, err := (&service.Serving{
		CA:    authority,
		Names: []string{"istiod.istio-system.svc", "127.0.0.1"},
		Now:   time.Now,
		Log:   slog.New(slog.DiscardHandler),
	}).Config()
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	w.service.Register(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = l.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return w
}

func unlimited() *authn.Limits { return authn.NewLimits(limit.Rate{}, limit.Rate{}, time.Now) }

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func csr(t *testing.T, k crypto.Signer) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"istiod.istio-system.svc"}}, k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// call asks as a caller with a token, a certificate or neither would.
func (w *world) call(
	t *testing.T,
	token string,
	pair *tls.Certificate,
	r *security.IstioCertificateRequest,
) (*security.IstioCertificateResponse, error) {
	t.Helper()
	config := &tls.Config{RootCAs: w.ca.Pool(), ServerName: "istiod.istio-system.svc"}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	conn, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return security.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, r)
}

func (w *world) join(t *testing.T) string {
	t.Helper()
	token, err := w.tokens.Create(web, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestFromTokenToRenewal: a machine comes with a join token, and renews with the certificate it was given.
func TestFromTokenToRenewal(t *testing.T) {
	w := serve(t, unlimited())
	token, k := w.join(t), newKey(t)
	out, err := w.call(t, token, nil, &security.IstioCertificateRequest{Csr: csr(t, k), ValidityDuration: 3600})
	if err != nil {
		t.Fatal(err)
	}
	leaf := first(t, out)
	if len(out.CertChain) != 2 || out.CertChain[1] != string(w.ca.Roots()) || leaf.URIs[0].String() != web.String() ||
		len(leaf.DNSNames) != 0 {
		t.Errorf("%d elements, names %v %v", len(out.CertChain), leaf.URIs, leaf.DNSNames)
	}
	if got := time.Until(leaf.NotAfter); got > time.Hour || got < 59*time.Minute {
		t.Errorf("asked for an hour, got %s", got)
	}
	pair := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: k}
	again, err := w.call(t, "", pair, &security.IstioCertificateRequest{Csr: csr(t, newKey(t))})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := identity.FromCertificate(first(t, again)); err != nil || id != web {
		t.Errorf("renewed as %v, %v", id, err)
	}
	for name, want := range map[string]float64{
		"citadel_server_csr_count": 2, "citadel_server_success_cert_issuance_count": 2, "citadel_server_authentication_failure_count": 0,
		"citadel_server_root_cert_expiry_timestamp": float64(w.ca.Status().Signs.NotAfter.Unix()), "fairway_ca_roots": 1,
	} {
		if got := w.metric(t, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if !strings.Contains(w.audit.String(), leaf.SerialNumber.Text(16)) || strings.Contains(w.audit.String(), token[20:]) ||
		strings.Count(w.audit.String(), "\n") != 2 {
		t.Errorf("the audit log says:\n%s", w.audit)
	}
}

// TestACertificateLeadsToNoLongerOne: only callers with new proof get months; a caller with a certificate, which may be stolen, gets the
// default.
func TestACertificateLeadsToNoLongerOne(t *testing.T) {
	w := serve(t, unlimited())
	const asked = 60 * 24 * 3600
	k := newKey(t)
	out, err := w.call(t, w.join(t), nil, &security.IstioCertificateRequest{Csr: csr(t, k), ValidityDuration: asked})
	if err != nil {
		t.Fatal(err)
	}
	leaf := first(t, out)
	if got := time.Until(leaf.NotAfter); got < 59*24*time.Hour {
		t.Errorf("with a join token: %s", got)
	}
	pair := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: k}
	if out, err = w.call(t, "", pair, &security.IstioCertificateRequest{Csr: csr(t, newKey(t)), ValidityDuration: asked}); err != nil {
		t.Fatal(err)
	}
	if got := time.Until(first(t, out).NotAfter); got > 24*time.Hour {
		t.Errorf("with a certificate: %s, want at most the default of a day", got)
	}
	if out, err = w.call(t, "", pair, &security.IstioCertificateRequest{Csr: csr(t, newKey(t)), ValidityDuration: 600}); err != nil {
		t.Fatal(err)
	}
	if got := time.Until(first(t, out).NotAfter); got > 10*time.Minute {
		t.Errorf("ten minutes were asked for, with a certificate: %s", got)
	}
}

func first(t *testing.T, r *security.IstioCertificateResponse) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(r.CertChain[0]))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) metric(t *testing.T, name string) float64 {
	t.Helper()
	all, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestRefusals(t *testing.T) {
	w := serve(t, unlimited())
	stranger := serve(t, unlimited())
	k := newKey(t)
	used := w.join(t)
	if _, err := w.call(t, used, nil, &security.IstioCertificateRequest{Csr: csr(t, k)}); err != nil {
		t.Fatal(err)
	}
	foreign, err := stranger.call(t, stranger.join(t), nil, &security.IstioCertificateRequest{Csr: csr(t, k)})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := w.tokens.Create(identity.ID{TrustDomain: "elsewhere", Namespace: "shop", ServiceAccount: "web"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	asking := func(who string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"ImpersonatedIdentity": structpb.NewStringValue(who)}}
	}
	for _, c := range []struct {
		name    string
		token   string
		pair    *tls.Certificate
		request *security.IstioCertificateRequest
		code    codes.Code
		want    string
		metric  string
	}{
		{
			"nobody",
			"",
			nil,
			&security.IstioCertificateRequest{Csr: csr(t, k)},
			codes.Unauthenticated,
			"no credentials",
			"citadel_server_authentication_failure_count",
		},
		{
			"a used token",
			used,
			nil,
			&security.IstioCertificateRequest{Csr: csr(t, newKey(t))},
			codes.Unauthenticated,
			"each admits one machine",
			"citadel_server_authentication_failure_count",
		},
		{"a foreign certificate", "", &tls.Certificate{
			Certificate: [][]byte{first(t, foreign).Raw},
			PrivateKey:  k,
		}, &security.IstioCertificateRequest{Csr: csr(t, k)},
			codes.Unauthenticated, "unknown authority", "citadel_server_authentication_failure_count"},
		{"in another's name", w.join(t), nil, &security.IstioCertificateRequest{
			Csr:      csr(t, k),
			Metadata: asking("spiffe://cluster.local/ns/a/sa/b"),
		},
			codes.PermissionDenied, "only a certificate of its own identity", "citadel_server_id_extraction_err_count"},
		{
			"of another trust domain",
			elsewhere,
			nil,
			&security.IstioCertificateRequest{Csr: csr(t, k)},
			codes.PermissionDenied,
			"another trust domain",
			"citadel_server_id_extraction_err_count",
		},
		{
			"no CSR",
			w.join(t),
			nil,
			&security.IstioCertificateRequest{Csr: "hello"},
			codes.InvalidArgument,
			"bad certificate request",
			"citadel_server_csr_parsing_err_count",
		},
		{
			"for too long",
			w.join(t),
			nil,
			&security.IstioCertificateRequest{Csr: csr(t, k), ValidityDuration: 1 << 30},
			codes.InvalidArgument,
			"MAX_WORKLOAD_CERT_TTL",
			"citadel_server_csr_sign_err_count",
		},
		{
			"for ever",
			w.join(t),
			nil,
			&security.IstioCertificateRequest{Csr: csr(t, k), ValidityDuration: 1 << 60},
			codes.InvalidArgument,
			"validity_duration",
			"",
		},
		{
			"for less than nothing",
			w.join(t),
			nil,
			&security.IstioCertificateRequest{Csr: csr(t, k), ValidityDuration: -1},
			codes.InvalidArgument,
			"validity_duration",
			"",
		},
	} {
		before := 0.0
		if c.metric != "" && c.metric != "citadel_server_csr_sign_err_count" { // a vector has no value before its first
			before = w.metric(t, c.metric)
		}
		w.audit.Reset()
		_, err := w.call(t, c.token, c.pair, c.request)
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s with %q", c.name, err, c.code, c.want)
		}
		if c.metric != "" && w.metric(t, c.metric) != before+1 {
			t.Errorf("%s: %s is %v after %v", c.name, c.metric, w.metric(t, c.metric), before)
		}
		var line map[string]any
		if err := json.Unmarshal(w.audit.Bytes(),
			&line); err != nil || line["msg"] != "certificate refused" || line["code"] != c.code.String() ||
			line["address"] != "127.0.0.1" {
			t.Errorf("%s: the audit log says %s (%v)", c.name, w.audit, err)
		}
		if c.token != "" && strings.Contains(w.audit.String(), c.token) {
			t.Errorf("%s: the audit log holds the token", c.name)
		}
	}
	own := w.join(t)
	if _, err := w.call(t, own, nil, &security.IstioCertificateRequest{Csr: csr(t, k), Metadata: asking(web.String())}); err != nil {
		t.Errorf("asking for one's own identity by name: %v", err)
	}
}

func TestRateLimits(t *testing.T) {
	clock := func() time.Time { return time.Unix(0, 0) }
	for name, limits := range map[string]*authn.Limits{
		"address":  authn.NewLimits(limit.Rate{PerSecond: 1, Burst: 3}, limit.Rate{}, clock),
		"identity": authn.NewLimits(limit.Rate{}, limit.Rate{PerSecond: 1, Burst: 3}, clock),
	} {
		w := serve(t, limits)
		ok, limited := 0, 0
		for range 6 {
			switch _, err := w.call(t, w.join(t), nil, &security.IstioCertificateRequest{Csr: csr(t, newKey(t))}); status.Code(err) {
			case codes.OK:
				ok++
			case codes.ResourceExhausted:
				limited++
			}
		}
		if ok != 3 || limited != 3 {
			t.Errorf("%s: %d were served and %d held back, want 3 and 3", name, ok, limited)
		}
		if got := w.metric(t, "fairway_ca_limited_total"); got != 3 {
			t.Errorf("%s: %v are counted as held back", name, got)
		}
	}
}

// TestTLS12IsRefused: the address accepts only TLS 1.3.
func TestTLS12IsRefused(t *testing.T) {
	w := serve(t, unlimited())
	if c, err := tls.Dial("tcp", w.address,
		&tls.Config{RootCAs: w.ca.Pool(), ServerName: "istiod.istio-system.svc", MaxVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("TLS 1.2 is spoken")
	}
}

// TestServingCertificate: renewed at half of its life, and when another root begins to sign.
func TestServingCertificate(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	o := ca.DefaultOptions()
	o.Plugged, o.Now = "", clock
	authority, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	config, err := (&service.Serving{
		CA:    authority,
		Names: []string{"istiod", "10.0.0.1"},
		Now:   clock,
		Log:   slog.New(slog.DiscardHandler),
	}).Config()
	if err != nil {
		t.Fatal(err)
	}
	get := func() *x509.Certificate {
		t.Helper()
		c, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	one := get()
	if one.VerifyHostname("istiod") != nil || one.VerifyHostname("10.0.0.1") != nil {
		t.Errorf("names %v %v", one.DNSNames, one.IPAddresses)
	}
	now = now.Add(11 * time.Hour)
	if !get().Equal(one) {
		t.Error("renewed before half of its life")
	}
	now = now.Add(2 * time.Hour)
	two := get()
	if two.Equal(one) {
		t.Error("not renewed at half of its life")
	}
	if err := authority.Rotate(); err != nil {
		t.Fatal(err)
	}
	if !get().Equal(two) {
		t.Error("renewed before the next root signs")
	}
	if err := authority.Advance(); err != nil {
		t.Fatal(err)
	}
	if got := get(); bytes.Equal(got.RawIssuer, two.RawIssuer) {
		t.Error("the next root signs, and the control plane shows a certificate of the old one")
	}
}

func TestServingFromFiles(t *testing.T) {
	w := serve(t, unlimited())
	dir := t.TempDir()
	s := &service.Serving{
		CA:       w.ca,
		CertFile: filepath.Join(dir, "tls.crt"),
		KeyFile:  filepath.Join(dir, "tls.key"),
		Now:      time.Now,
		Log:      slog.New(slog.DiscardHandler),
	}
	if _, err := s.Config(); err == nil || !strings.Contains(err.Error(), "--tlsCertFile") {
		t.Errorf("missing files: %v", err)
	}
	place := func(name string, at time.Time) {
		t.Helper()
		pair, err := w.ca.ServerCertificate([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{
			s.CertFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
			s.KeyFile:  {Type: "PRIVATE KEY", Bytes: key},
		} {
			if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(config *tls.Config, name string) {
		t.Helper()
		c, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	place("one", time.Unix(1e9, 0))
	config, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	expect(config, "one")
	place("two", time.Unix(1e9+1, 0))
	expect(config, "two")
	if err := os.Remove(s.KeyFile); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(s.CertFile, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	expect(config, "two")
}

func TestNodeMismatch(t *testing.T) {
	for _, c := range []struct {
		namespace, account string
		ok                 bool
	}{{"shop", "web", true}, {"shop", "", true}, {"shop", "db", false}, {"bank", "web", false}, {"bank", "", false}, {"", "", false}} {
		err := service.NodeMismatch(web, c.namespace, c.account)
		if c.ok != (err == nil) || err != nil && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
