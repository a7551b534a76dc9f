package service_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	security "istio.io/api/security/v1alpha1"

	"fairway/internal/identity/ca"
)

// BenchmarkRenewal is what one renewal costs both sides together: a connection as agents make it, TLS 1.3 with a
// client's certificate, and the signature.
func BenchmarkRenewal(b *testing.B) {
	w := serve(b, unlimited())
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	signed, err := w.ca.Sign(&x509.CertificateRequest{PublicKey: k.Public()}, ca.Grant{ID: web})
	if err != nil {
		b.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, k)
	if err != nil {
		b.Fatal(err)
	}
	r := &security.IstioCertificateRequest{Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))}
	config := &tls.Config{
		RootCAs:      w.ca.Pool(),
		ServerName:   "istiod.istio-system.svc",
		Certificates: []tls.Certificate{{Certificate: [][]byte{signed.Leaf.Raw}, PrivateKey: k}},
	}
	for b.Loop() {
		conn, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := security.NewIstioCertificateServiceClient(conn).CreateCertificate(context.Background(), r); err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
}
