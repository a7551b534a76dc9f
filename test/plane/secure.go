package plane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	security "istio.io/api/security/v1alpha1"

	"fairway/internal/app"
	"fairway/internal/identity"
)

// SecureOptions are Options of a control plane that has a secure address too, with an authority of its own.
func SecureOptions(t testing.TB) app.Options {
	opts := Options()
	opts.SecureAddr = "127.0.0.1:0"
	opts.Identity.CA.Plugged, opts.Identity.CA.State = "", t.TempDir()
	return opts
}

// Credentials returns the roots that a client of the secure address trusts and, with a pair, its certificate.
func (p *Plane) Credentials(pair *tls.Certificate) credentials.TransportCredentials {
	config := &tls.Config{RootCAs: p.Discovery.Authority().Pool(), ServerName: "istiod.istio-system.svc"}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	return credentials.NewTLS(config)
}

// Dial connects to the secure address, with a certificate or without, until the test ends.
func (p *Plane) Dial(t testing.TB, pair *tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.Discovery.SecureAddr(), grpc.WithTransportCredentials(p.Credentials(pair)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Join asks for a certificate with a join token, as the agent of a machine does.
func (p *Plane) Join(t testing.TB, id identity.ID) *tls.Certificate {
	t.Helper()
	token, err := p.Discovery.JoinTokens().Create(id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := p.Certify(t, token)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Certify asks for a certificate with a token of any issuer. An error is the control plane's.
func (p *Plane) Certify(t testing.TB, token string) (*tls.Certificate, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	out, err := security.NewIstioCertificateServiceClient(p.Dial(t, nil)).CreateCertificate(ctx, &security.IstioCertificateRequest{
		Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
	})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(out.CertChain[0]))
	return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, nil
}

// JoinAs is Join for a service account of a namespace of cluster.local.
func (p *Plane) JoinAs(t testing.TB, namespace, account string) *tls.Certificate {
	t.Helper()
	return p.Join(t, identity.ID{TrustDomain: "cluster.local", Namespace: namespace, ServiceAccount: account})
}
