package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"fairway/internal/app"
	"fairway/internal/app/authority"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/test/ads"
	"fairway/test/plane"
)

var shopWeb = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}

// securePlane is a control plane with an authority, and the folder that keeps it.
func securePlane(t *testing.T, change func(*app.Options)) (p *plane.Plane, state string) {
	t.Helper()
	opts := plane.Options()
	opts.SecureAddr, state = "127.0.0.1:0", filepath.Join(t.TempDir(), "ca")
	opts.Identity.CA.Plugged, opts.Identity.CA.State = "", state
	if change != nil {
		change(&opts)
	}
	return plane.Start(t, opts), state
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func withToken(t *testing.T, token string) context.Context {
	return metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer "+token)
}

func dialSecure(t *testing.T, p *plane.Plane, pair *tls.Certificate) *grpc.ClientConn {
	t.Helper()
	config := &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc"}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	conn, err := grpc.NewClient(p.Discovery.SecureAddr(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// askFor asks for a certificate as a workload would.
func askFor(t *testing.T, ctx context.Context, conn *grpc.ClientConn) (*tls.Certificate, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	out, err := security.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, &security.IstioCertificateRequest{Csr: string(text)})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(out.CertChain[0]))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf}, nil
}

func joined(t *testing.T, p *plane.Plane) *tls.Certificate {
	t.Helper()
	token, err := p.Discovery.JoinTokens().Create(shopWeb, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := askFor(t, withToken(t, token), dialSecure(t, p, nil))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// openStream opens a stream of shop/web and reads the first response.
func openStream(ctx context.Context, conn *grpc.ClientConn) (discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, error) {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	node := plane.Proxy{Name: "web-1", Namespace: "shop"}.Node()
	node.Metadata.Fields["SERVICE_ACCOUNT"] = structpb.NewStringValue("web")
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: ads.ClusterType}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	_, err = stream.Recv() // Recv returns the error that ended a stream, also if Send saw its end
	return stream, err
}

// identityCommand runs one of pilot-discovery's, as an operator beside it would.
func identityCommand(t *testing.T, state string, args ...string) {
	t.Helper()
	for _, c := range authority.Commands() {
		if c.Name() == args[0] {
			c.SetArgs(append(args[1:], "--caStateDir", state))
			c.SetOut(&bytes.Buffer{})
			if err := c.Execute(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAStolenCertificateIsTakenBack: its stream ends, it opens no other one and gets no next certificate; the
// workload's other certificate goes on. Taking the identity back ends that too, and whatever it shows then is of no
// use, until it is restored.
func TestAStolenCertificateIsTakenBack(t *testing.T) {
	p, state := securePlane(t, nil)
	stolen, good := joined(t, p), joined(t, p)
	unused, err := p.Discovery.JoinTokens().Create(shopWeb, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	thief, workload := dialSecure(t, p, stolen), dialSecure(t, p, good)
	streams := map[string]discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient{}
	for name, conn := range map[string]*grpc.ClientConn{"thief": thief, "workload": workload} {
		if streams[name], err = openStream(within(t), conn); err != nil {
			t.Fatal(name, err)
		}
	}
	revokedNow := func(name string, conn *grpc.ClientConn) {
		t.Helper()
		began := time.Now()
		for err = nil; err == nil; {
			_, err = streams[name].Recv()
		}
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("the stream of the %s ended with %v", name, err)
		}
		t.Logf("the stream of the %s ended %s after the command", name, time.Since(began).Round(time.Millisecond))
		if _, err := openStream(within(t), conn); status.Code(err) != codes.Unauthenticated {
			t.Errorf("the %s opens another stream: %v", name, err)
		}
		ctx := within(t)
		_, err := askFor(t, ctx, conn)
		for status.Code(err) == codes.Unavailable { // the connection ended with the stream: the next call dials again
			_, err = askFor(t, ctx, conn)
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("the %s gets the next certificate: %v", name, err)
		}
	}
	identityCommand(t, state, "ca", "revoke", stolen.Leaf.SerialNumber.Text(16))
	revokedNow("thief", thief)
	if _, err := askFor(t, within(t), workload); err != nil {
		t.Errorf("another certificate of the same workload: %v", err)
	}
	identityCommand(t, state, "ca", "revoke", "shop/web")
	revokedNow("workload", workload)
	if _, err := askFor(t, withToken(t, unused), dialSecure(t, p, nil)); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "ca restore shop/web") {
		t.Errorf("a join token of an identity that is shut out: %v", err)
	}
	changed := p.Discovery.Authority().Changed()
	identityCommand(t, state, "ca", "restore", "shop/web")
	<-changed
	next, err := askFor(t, withToken(t, unused), dialSecure(t, p, nil)) // it was not used up
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStream(within(t), dialSecure(t, p, next)); err != nil {
		t.Errorf("restored: %v", err)
	}
	if _, err := openStream(within(t), dialSecure(t, p, good)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a certificate from before, after the identity is restored: %v", err)
	}
}

// TestGuessedTokensOnXDS: 300 of them cause one request for the issuer's keys, no caller sees the issuer's answers, and most tokens are not
// even checked.
func TestGuessedTokensOnXDS(t *testing.T) {
	var asked atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "what only the issuer knows", http.StatusTeapot)
	}))
	defer issuer.Close()
	p, _ := securePlane(t, func(o *app.Options) { o.Identity.Issuers = []authn.Issuer{{URL: issuer.URL}} })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	conn, waits := dialSecure(t, p, nil), 0
	began := time.Now()
	for n := range 300 {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: fmt.Sprint(n)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(
			signer,
		).Claims(jwt.Claims{Issuer: issuer.URL, Subject: "system:serviceaccount:shop:web", Audience: jwt.Audience{"istio-ca"}}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		_, err = openStream(withToken(t, token), conn)
		if err == nil || strings.Contains(err.Error(), "only the issuer knows") || strings.Contains(err.Error(), issuer.URL) {
			t.Fatalf("token %d: %v", n, err)
		}
		if status.Code(err) == codes.ResourceExhausted {
			waits++
		}
	}
	took := time.Since(began)
	if most := 1 + int64(took/(10*time.Second)); asked.Load() > most {
		t.Errorf("300 tokens in %s became %d requests to the issuer, want at most %d", took, asked.Load(), most)
	}
	if least := 300 - 50 - int(5*took.Seconds()) - 2; waits < least {
		t.Errorf("%d of 300 tokens in %s were not looked at, want at least %d", waits, took, least)
	}
	t.Logf("300 tokens in %s: %d requests to the issuer, %d not looked at", took.Round(time.Millisecond), asked.Load(), waits)
}

// TestACertificateRequestOfAStranger is refused by its headers: nothing of its message, of up to 16 MiB, is waited for or read.
func TestACertificateRequestOfAStranger(t *testing.T) {
	p, _ := securePlane(t, nil)
	const method = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
	open := func(ctx context.Context, conn *grpc.ClientConn) grpc.ClientStream {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	var answer security.IstioCertificateResponse
	if err := open(within(t), dialSecure(t, p, nil)).RecvMsg(&answer); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger who has sent no message yet: %v", err)
	}
	pair := joined(t, p)
	stream := open(within(t), dialSecure(t, p, pair))
	if err := stream.SendMsg(&security.IstioCertificateRequest{Csr: strings.Repeat("x", 100<<10)}); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&answer); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("a message of 100 KiB: %v", err)
	}
	long := authn.JoinPrefix + strings.Repeat("x", 17<<10)
	if _, err := askFor(t, withToken(t, long), dialSecure(t, p, nil)); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "at most 16384") {
		t.Errorf("a token of 17 KiB: %.200v", err)
	}
	if _, err := askFor(t, withToken(t, strings.Repeat("x", 100<<10)), dialSecure(t, p, nil)); err == nil {
		t.Error("headers of 100 KiB are read")
	}
}
