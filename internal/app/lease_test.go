package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"fairway/internal/app"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/xdstype"
	"fairway/test/ads"
	"fairway/test/plane"
	"fairway/test/rig"
)

// issue makes a certificate of some seconds for shop/web.
func issue(t *testing.T, p *plane.Plane, life time.Duration) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}
	signed, err := p.Discovery.Authority().Sign(&x509.CertificateRequest{PublicKey: key.Public()}, ca.Grant{ID: id, TTL: life})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(signed.Chain)
	return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: signed.Leaf}
}

// dialWith is dial with the certificate of the moment.
func dialWith(t *testing.T, p *plane.Plane, show *atomic.Pointer[tls.Certificate]) *grpc.ClientConn {
	t.Helper()
	pool := p.Discovery.Authority().Pool()
	conn, err := grpc.NewClient(p.Discovery.SecureAddr(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: pool, ServerName: "istiod.istio-system.svc",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show.Load(), nil },
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// listen opens a stream and reads the first response.
func listen(
	t *testing.T,
	ctx context.Context,
	conn *grpc.ClientConn,
) discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
	t.Helper()
	stream, err := tryListen(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func tryListen(ctx context.Context, conn *grpc.ClientConn) (discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, error) {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf("shop", "web"), TypeUrl: ads.ClusterType}); err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

// ended waits for the end of a stream and checks that its status says why.
func ended(t *testing.T, stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, why string) {
	t.Helper()
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), why) {
				t.Errorf("the stream ended with %v, want Unauthenticated for %q", err, why)
			}
			return
		}
	}
}

// again opens a stream on a connection after its last stream was ended; the connection is soon a new one.
func again(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx := bounded(t)
	for {
		if _, err := tryListen(ctx, conn); err == nil {
			return
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func audited(t *testing.T, log *rig.Log, reason string) {
	t.Helper()
	lines := lines(t, log, "proxy's stream ended")
	if len(lines) != 1 || lines[0]["scope"] != "audit" || lines[0]["identity"] != "spiffe://cluster.local/ns/shop/sa/web" ||
		!strings.Contains(lines[0]["reason"].(string), reason) {
		t.Errorf("the log says %v, want one of %q", lines, reason)
	}
}

// TestStreamsEndWithTheirCertificate: at its end, and no sooner; another certificate opens the next one, on the client's same connection.
func TestStreamsEndWithTheirCertificate(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	opts := plane.SecureOptions(t)
	opts.Log = slog.New(slog.NewJSONHandler(log, nil))
	p := plane.Start(t, opts)
	var show atomic.Pointer[tls.Certificate]
	short := issue(t, p, 5*time.Second)
	show.Store(short)
	conn := dialWith(t, p, &show)
	stream := listen(t, bounded(t), conn)
	long := issue(t, p, time.Hour)
	other := listen(t, bounded(t), p.Dial(t, long))
	show.Store(long)
	ended(t, stream, "the certificate that the stream was opened with ended at")
	if early := time.Until(short.Leaf.NotAfter); early > 0 {
		t.Errorf("it ended %s before its certificate", early)
	}
	audited(t, log, "ended at")
	again(t, conn)
	if err := other.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xdstype.BundleURL}); err != nil {
		t.Error(err)
	}
	if _, err := other.Recv(); err != nil {
		t.Errorf("a stream whose certificate has not ended: %v", err)
	}
}

// TestStreamsEndWithTheirRoot: a stream ends when the root of its certificate is no longer trusted.
func TestStreamsEndWithTheirRoot(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	opts := plane.SecureOptions(t)
	opts.Log = slog.New(slog.NewJSONHandler(log, nil))
	p := plane.Start(t, opts)
	var show atomic.Pointer[tls.Certificate]
	show.Store(issue(t, p, time.Hour))
	authority := p.Discovery.Authority()
	if err := authority.Rotate(); err != nil {
		t.Fatal(err)
	}
	conn := dialWith(t, p, &show)
	stream := listen(t, bounded(t), conn)
	for range 2 {
		if err := authority.Advance(); err != nil {
			t.Fatal(err)
		}
		show.Store(issue(t, p, time.Hour)) // of the new root
	}
	ended(t, stream, "unknown authority")
	audited(t, log, "unknown authority")
	again(t, conn)
}

// TestStreamsEndWithTheirToken: a stream ends with its token. The connection goes on, because no certificate was presented on it.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	opts := plane.SecureOptions(t)
	opts.Log = slog.New(slog.NewJSONHandler(log, nil))
	token := tokensFor(t, &opts)
	p := plane.Start(t, opts)
	conn := p.Dial(t, nil)
	with := func(life time.Duration) context.Context {
		return metadata.AppendToOutgoingContext(bounded(t), "authorization", "Bearer "+token(life))
	}
	stream := listen(t, with(5*time.Second), conn)
	ended(t, stream, "the token that the stream was opened with ended at")
	audited(t, log, "ended at")
	listen(t, with(time.Hour), conn)
}

// tokensFor has a control plane believe an issuer, and makes its tokens for shop/web.
func tokensFor(t *testing.T, opts *app.Options) func(life time.Duration) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	opts.Identity.Issuers = []authn.Issuer{{URL: "https://issuer.test", KeysFile: file}}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(life time.Duration) string {
		text, err := jwt.Signed(signer).Claims(jwt.Claims{
			Issuer:   "https://issuer.test",
			Subject:  "system:serviceaccount:shop:web",
			Audience: jwt.Audience{authn.DefaultAudience},
			Expiry:   jwt.NewNumericDate(time.Now().Add(life)),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}
