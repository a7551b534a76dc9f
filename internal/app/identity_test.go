package app_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app"
	"fairway/internal/app/secure"
	"fairway/internal/identity"
	"fairway/internal/identity/ca"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// firstAnswer opens a stream of xDS and returns how it answers a request for clusters.
func firstAnswer(t *testing.T, conn *grpc.ClientConn, node *corev3.Node) error {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// it may be refused already
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ads.ClusterType}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	return err
}

func nodeOf(namespace, account string) *corev3.Node {
	n := plane.Proxy{Name: "web-1", Namespace: namespace}.Node()
	if account != "" {
		n.Metadata.Fields["SERVICE_ACCOUNT"] = structpb.NewStringValue(account)
	}
	return n
}

// TestProxiesAreThemselves: on the secure address a proxy is served only as the identity that its credentials prove.
func TestProxiesAreThemselves(t *testing.T) {
	log := &rig.Log{}
	opts := plane.SecureOptions(t)
	opts.Log = slog.New(slog.NewJSONHandler(log, nil))
	p := plane.Start(t, opts)
	p.Apply(t, "rules.yaml", reviews)
	web := p.Join(t, identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"})
	for _, c := range []struct {
		name               string
		pair               *tls.Certificate
		namespace, account string
		want               codes.Code
	}{
		{"itself", web, "shop", "web", codes.OK},
		{"without a service account", web, "shop", "", codes.OK},
		{"another account", web, "shop", "db", codes.PermissionDenied},
		{"another namespace", web, "bank", "web", codes.PermissionDenied},
		{"nobody", nil, "shop", "web", codes.Unauthenticated},
	} {
		if err := firstAnswer(t, p.Dial(t, c.pair), nodeOf(c.namespace, c.account)); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if refused := lines(t, log, "stream refused"); len(refused) != 3 ||
		!strings.Contains(refused[0]["error"].(string), "a proxy may only be itself") {
		t.Errorf("the log says %v", refused)
	}
	if issued := lines(t, log,
		"certificate issued"); len(issued) != 1 || issued[0]["identity"] != "spiffe://cluster.local/ns/shop/sa/web" ||
		issued[0]["by"] != "join token" {
		t.Errorf("the log says %v", issued)
	}
}

// TestCertificatesBeforeSync: agents get certificates while sources are still read, and their streams wait.
func TestCertificatesBeforeSync(t *testing.T) {
	slow := late{make(chan struct{})}
	p := plane.Run(t, plane.SecureOptions(t), slow)
	pair := p.Join(t, identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"})
	answered := make(chan error, 1)
	go func() { answered <- firstAnswer(t, p.Dial(t, pair), nodeOf("shop", "web")) }()
	select {
	case err := <-answered:
		t.Fatalf("answered before everything was read: %v", err)
	default:
	}
	close(slow.told)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAuthorityPages(t *testing.T) {
	p := plane.Start(t, plane.SecureOptions(t))
	code, body := get(t, p.URL("/debug/caz"))
	var shown struct {
		Phase string
		Roots []struct{ NotAfter time.Time }
	}
	if err := json.Unmarshal([]byte(body),
		&shown); err != nil || code != http.StatusOK || shown.Phase != "stable" || len(shown.Roots) != 1 ||
		strings.Contains(body, "PRIVATE") {
		t.Errorf("%d %v %s", code, err, body)
	}
	if code, body := get(t, p.URL("/metrics")); code != http.StatusOK ||
		!strings.Contains(body, "citadel_server_root_cert_expiry_timestamp ") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(t, p.URL("/debug/syncz")); code != http.StatusOK {
		t.Errorf("other pages: %d", code)
	}
	off := plane.Start(t, plane.Options())
	if off.Discovery.SecureAddr() != "" || off.Discovery.Authority() != nil || off.Discovery.JoinTokens() != nil {
		t.Error("without a secure address there is an authority")
	}
}

// TestTrustDomainOfTheMeshConfiguration is that of certificates.
func TestTrustDomainOfTheMeshConfiguration(t *testing.T) {
	opts := plane.SecureOptions(t)
	opts.MeshConfig = filepath.Join(t.TempDir(), "mesh")
	if err := os.WriteFile(opts.MeshConfig, []byte("trustDomain: new.example\ntrustDomainAliases: [old.example]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := plane.Start(t, opts)
	if got := p.Discovery.Authority().Status().Signs.Subject; !strings.Contains(got, "new.example") {
		t.Errorf("the root is of %s", got)
	}
	pair := p.Join(t, identity.ID{TrustDomain: "old.example", Namespace: "shop", ServiceAccount: "web"})
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || leaf.URIs[0].String() != "spiffe://new.example/ns/shop/sa/web" {
		t.Errorf("one who is known under an alias gets %v, %v", leaf.URIs, err)
	}
	for domain, want := range map[string]codes.Code{"old.example": codes.OK, "else": codes.Unauthenticated} {
		key := pair.PrivateKey.(*ecdsa.PrivateKey)
		out, err := p.Discovery.Authority().Sign(&x509.CertificateRequest{PublicKey: key.Public()},
			ca.Grant{ID: identity.ID{TrustDomain: domain, Namespace: "shop", ServiceAccount: "web"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := firstAnswer(t, p.Dial(t, &tls.Certificate{Certificate: [][]byte{out.Leaf.Raw}, PrivateKey: key}),
			nodeOf("shop", "web")); status.Code(err) != want {
			t.Errorf("a certificate of %s: %v, want %s", domain, err, want)
		}
	}
}

func TestSecureAddressAlone(t *testing.T) {
	opts := plane.SecureOptions(t)
	opts.GRPCAddr = ""
	p := plane.Start(t, opts)
	pair := p.Join(t, identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"})
	if err := firstAnswer(t, p.Dial(t, pair), nodeOf("shop", "web")); err != nil {
		t.Error(err)
	}
	if p.Address() != "" {
		t.Errorf("plaintext is served at %s", p.Address())
	}
}

func TestPlaintextForOthersIsWarnedOf(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "localhost:0": false, "0.0.0.0:0": true, ":0": true} {
		var log bytes.Buffer
		opts := plane.Options()
		opts.GRPCAddr, opts.Log = addr, slog.New(slog.NewTextHandler(&log, nil))
		d, err := app.NewDiscovery(opts)
		if err != nil {
			if strings.Contains(addr, "::1") { // no IPv6 here
				continue
			}
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "plaintext"); got != want {
			t.Errorf("%s: warned %v, want %v", addr, got, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestSecureAddressMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*secure.Options){
		"want both or neither":         func(o *secure.Options) { o.CertFile = file },
		"--tlsCertFile " + file:        func(o *secure.Options) { o.CertFile, o.KeyFile = file, file },
		"--caCertFile":                 func(o *secure.Options) { o.ClientRoots = file },
		"ENABLE_CA_SERVER=false":       func(o *secure.Options) { o.NoCA = true },
		"name one that can be written": func(o *secure.Options) { o.CA.State = filepath.Join(file, "below") },
		"MAX_WORKLOAD_CERT_TTL":        func(o *secure.Options) { o.CA.MaxTTL = 1 },
		"holds '!'":                    func(o *secure.Options) { o.TrustDomain = "a!" },
	} {
		opts := plane.SecureOptions(t)
		change(&opts.Identity)
		if _, err := app.NewDiscovery(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
