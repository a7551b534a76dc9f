package live

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/secrets"
	"fairway/internal/identity"
	"fairway/internal/identity/ca"
)

// Trust is an authority of the mesh's identities.
type Trust struct {
	authority *ca.CA
	dir       string
}

// NewTrust makes an authority that is gone when the test ends.
func NewTrust(t testing.TB) *Trust {
	t.Helper()
	o := ca.DefaultOptions()
	o.Plugged, o.State = "", ""
	authority, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return &Trust{authority, t.TempDir()}
}

// Identity is a workload's certificate, as files and for clients of the test.
type Identity struct {
	secrets.Files
	TLS *tls.Config // shows the certificate, and trusts any of the same authority whatever its name
}

// Issue gives a certificate for a service account, written "web", "shop/web" or "td.example/shop/web". The default is namespace default and
// trust domain cluster.local.
func (a *Trust) Issue(t testing.TB, account string) Identity {
	t.Helper()
	key := newKey(t)
	id := identity.ID{TrustDomain: "cluster.local", Namespace: "default"}
	parts := strings.Split(account, "/")
	id.ServiceAccount = parts[len(parts)-1]
	if len(parts) > 1 {
		id.Namespace = parts[len(parts)-2]
	}
	if len(parts) > 2 {
		id.TrustDomain = parts[0]
	}
	account = strings.ReplaceAll(account, "/", "-")
	signed, err := a.authority.Sign(request(t, key), ca.Grant{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	chain, _ := pem.Decode(signed.Chain)
	roots, _ := pem.Decode(signed.Roots)
	file := func(kind string) string { return filepath.Join(a.dir, account+"-"+kind+".pem") }
	return Identity{
		Files: secrets.Files{
			Chain: writePEM(t, file("chain"), "CERTIFICATE", chain.Bytes), Key: writePEM(t, file("key"), "EC PRIVATE KEY", der),
			Roots: writePEM(t, file("roots"), "CERTIFICATE", roots.Bytes),
		},
		TLS: &tls.Config{
			Certificates:       []tls.Certificate{{Certificate: [][]byte{chain.Bytes}, PrivateKey: key}},
			InsecureSkipVerify: true, // names of workloads are not host names
		},
	}
}

func request(t testing.TB, key *ecdsa.PrivateKey) *x509.CertificateRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// serveSecrets is the agent's part beside a proxy: it serves an identity on a socket until the test ends.
func serveSecrets(t testing.TB, files secrets.Files) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "SDS")
	s, err := secrets.New(secrets.Options{Socket: socket, Files: &files, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Run(ctx, func() { close(up) }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-up:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return socket
}
