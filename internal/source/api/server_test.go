package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairway/internal/source/api"
)

// TestTokens: those of the file count, as it is now; and nothing else.
func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const old, next = "0123456789abcdef-old", "0123456789abcdef-new"
	write("# of the adapter\n" + old + "\n\nshort\n")
	w := start(t, api.Options{Address: local, TokenFile: file})
	with := func(header string) int {
		t.Helper()
		var headers []string
		if header != "" {
			headers = []string{"Authorization", header}
		}
		return w.do("GET", "/v1/services", "", headers...).status
	}
	for header, want := range map[string]int{
		"": 401, "Bearer " + old: 200, "Bearer " + next: 401, "Bearer short": 401, "Bearer ": 401, "Basic " + old: 401,
		"Bearer # of the adapter": 401, "bearer " + old: 401, "Bearer " + old + " ": 200, // servers trim the spaces around a header
	} {
		if got := with(header); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
	if got := w.do("PUT", "/v1/services/n/a", `{}`); got.status != 401 || got.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("a change without a token: %d, %v", got.status, got.header)
	}
	write(old + "\n" + next + "\n")
	if a, b := with("Bearer "+old), with("Bearer "+next); a != 200 || b != 200 {
		t.Errorf("while both count: %d, %d", a, b)
	}
	write(next + "\n")
	if a, b := with("Bearer "+old), with("Bearer "+next); a != 401 || b != 200 {
		t.Errorf("once the new one counts alone: %d, %d", a, b)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := with("Bearer " + next); got != 503 {
		t.Errorf("without the file: %d, want 503", got)
	}
	if got := w.sink.content(); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	a.cert, _ = a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (a *authority) sign(about *x509.Certificate, of *ecdsa.PrivateKey) (*x509.Certificate, []byte) {
	a.t.Helper()
	by := a.cert
	if by == nil {
		by = about
	}
	der, err := x509.CreateCertificate(rand.Reader, about, by, of.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair writes a certificate for 127.0.0.1 and its key into files.
func (a *authority) pair(dir string, serial int64) (cert, key string) {
	a.t.Helper()
	private := newKey(a.t)
	_, text := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, text := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// TestTLS: who shows no certificate of the right authority has no connection; a certificate that is replaced is shown to the
// next connection.
func TestTLS(t *testing.T) {
	own, others, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cert, key := own.pair(dir, 7)
	ca := filepath.Join(dir, "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.cert.Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, api.Options{Address: local, CertFile: cert, KeyFile: key, ClientCAFile: ca})
	url := strings.Replace(w.url, "http:", "https:", 1) + "/v1/services"
	get := func(shows *authority) (status int, serial int64, err error) {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AddCert(own.cert)
		config := &tls.Config{RootCAs: roots}
		if shows != nil {
			pair, err := tls.LoadX509KeyPair(shows.pair(t.TempDir(), 1))
			if err != nil {
				t.Fatal(err)
			}
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		a, err := c.Get(url)
		if err != nil {
			return 0, 0, err
		}
		defer a.Body.Close()
		_, err = io.Copy(io.Discard, a.Body)
		return a.StatusCode, a.TLS.PeerCertificates[0].SerialNumber.Int64(), err
	}
	if status, serial, err := get(own); status != 200 || serial != 7 {
		t.Errorf("with a certificate: %d, serial number %d, %v", status, serial, err)
	}
	if status, _, err := get(others); err == nil {
		t.Errorf("with one of another authority: %d", status)
	}
	if status, _, err := get(nil); err == nil {
		t.Errorf("with none: %d", status)
	}
	own.pair(dir, 8)
	if status, serial, err := get(own); status != 200 || serial != 8 {
		t.Errorf("after it was replaced: %d, serial number %d, %v", status, serial, err)
	}
}

// endless is an endless body that counts the bytes that were read of it.
type endless struct{ taken atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.taken.Add(int64(len(p)))
	for i := range p {
		p[i] = '['
	}
	return len(p), nil
}

// TestBodiesAreBounded: one without an end is cut, and deep, wide and repeated ones are refused.
func TestBodiesAreBounded(t *testing.T) {
	w := start(t, api.Options{Address: local, MaxBody: 1, MaxSnapshot: 2})
	body := &endless{}
	got, err := w.try("PUT", "/v1/services/n/a", body)
	if err == nil && got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := body.taken.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	for name, text := range map[string]string{
		"deep":      `{"instances":` + strings.Repeat("[", 500_000),
		"instances": `{"instances":[` + strings.Repeat(`{},`, 60_000) + `{}]}`,
		"ports":     `{"instances":[{"ports":[` + strings.Repeat(`{},`, 60_000) + `{}]}]}`,
	} {
		if got := w.do("PUT", "/v1/services/n/a", text); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", name, got.status, got.body)
		}
	}
	many := `{"services":[` + strings.Repeat(`{},`, 100_000) + `{}]}`
	if got := w.do("PUT", "/v1/snapshot", many); got.status != http.StatusBadRequest && got.status != http.StatusInsufficientStorage {
		t.Errorf("a snapshot of nothings: %d %.200s", got.status, got.body)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	if got := w.do("PUT", "/v1/objects/VirtualService/n/a", bomb); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a bomb: %d %.200s", got.status, got.body)
	}
	w.want(http.StatusCreated, "PUT", "/v1/services/n/a", `{}`)
}
