package mesh

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	security "istio.io/api/security/v1alpha1"

	"fairway/test/rig"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// certificate asks the control plane for one of a service account, as an agent does. ttl in seconds; 0: as long as usual.
func (w *world) certificate(t *testing.T, account string, ttl int64) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	chain := w.sign(t, account, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), ttl)
	c := tls.Certificate{PrivateKey: key}
	for rest := []byte(strings.Join(chain[:len(chain)-1], "\n")); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c.Certificate = append(c.Certificate, block.Bytes)
	}
	if c.Leaf, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return c
}

// sign makes the authority sign a request; the last certificate of the answer is the root.
func (w *world) sign(t *testing.T, account, csr string, ttl int64) []string {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(w.dir, "ca", "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root)
	conn, err := grpc.NewClient("passthrough:///"+at(w.network.plane, "15012"),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "istiod.istio-system.svc"})),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer{w.outside, ""}.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Bound)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+w.tokens[account])
	answer, err := security.NewIstioCertificateServiceClient(
		conn,
	).CreateCertificate(ctx, &security.IstioCertificateRequest{Csr: csr, ValidityDuration: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetCertChain()
}

// showing returns the TLS configuration of a client that shows a certificate and trusts any server.
func showing(c tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c}, InsecureSkipVerify: true, NextProtos: []string{"istio"}}
}

// awaitExpiry returns when a certificate has ended, by the clock that Envoy reads too.
func awaitExpiry(t *testing.T, c tls.Certificate) {
	t.Helper()
	if left := time.Until(c.Leaf.NotAfter); left > rig.Bound {
		t.Fatalf("it lasts for %s", left)
	}
	rig.Eventually(t, func() error {
		if left := time.Until(c.Leaf.NotAfter.Add(time.Second)); left > 0 { // certificates count in seconds
			return &early{left}
		}
		return nil
	})
}

type early struct{ left time.Duration }

func (e *early) Error() string { return "it is valid for another " + e.left.String() }
