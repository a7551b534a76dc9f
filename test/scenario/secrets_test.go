package scenario

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"
)

// secret FILE NAMESPACE/NAME [broken]: write a Secret with a new certificate into a file; a broken one has another certificate's key.
func (w *world) secret(args []string) error {
	certificate, key, err := pair()
	if err == nil && slices.Contains(args, "broken") {
		_, key, err = pair()
	}
	if err != nil {
		return err
	}
	ns, name, _ := strings.Cut(args[1], "/")
	block := func(key string, text []byte) string {
		return "  " + key + ": |\n    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s, annotations: {fairway/service-accounts: \"*\"}}\nstringData:\n", name, ns) + block("tls.key", key) + block("tls.crt", certificate)
	return os.WriteFile(w.path(args[0]), []byte(text), 0o600)
}

// pair makes a certificate of its own authority, with its key, both in PEM.
func pair() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"shop.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * 365 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}
