package identity_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"

	"fairway/internal/identity"
)

func TestCertificates(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	one := func(serial int64) []byte {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(serial)},
			&x509.Certificate{SerialNumber: big.NewInt(serial)}, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	other := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})
	certs, err := identity.Certificates(bytes.Join([][]byte{[]byte("a comment\n"), one(1), other, one(2)}, nil))
	if err != nil || len(certs) != 2 || certs[0].SerialNumber.Int64() != 1 || certs[1].SerialNumber.Int64() != 2 {
		t.Errorf("got %d certificates, %v", len(certs), err)
	}
	good, joined := string(one(1)), strings.TrimSpace(string(one(1)))+string(one(2))
	for text, want := range map[string]string{
		good + good[:len(good)-9]: "1 of 2 certificates cannot be read", good[:99] + "\n" + good: "1 of 2", joined: "1 of 1",
		good + strings.Replace(good, "M", "!", 1): "1 of 2",
		"": "no certificate", string(other): "no certificate",
		string(one(1)) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})): "certificate 2: ",
	} {
		if _, err := identity.Certificates([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// TestPrivateHides: no way of printing gives the key away, not even from inside something else.
func TestPrivateHides(t *testing.T) {
	const key = "the-key"
	p := identity.MakePrivate([]byte(key))
	if string(p.PEM()) != key || (identity.Private{}).PEM() != nil {
		t.Error("the key is not what was put in")
	}
	holder := struct {
		Key   identity.Private
		inner identity.Private
	}{p, p}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", p, holder, &holder)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", p, "holder", holder)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", p, "holder", holder)
	if err := json.NewEncoder(&out).Encode(holder); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, key) || strings.Contains(got, fmt.Sprintf("%x", key)) ||
		strings.Contains(got, "116 104 101") ||
		!strings.Contains(got, "[hidden]") {
		t.Errorf("printed: %s", got)
	}
}
