package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// PodToken is a token for an audience, of a service account and bound to a pod, as the API server makes them; but its life may be as
// short as a test likes, and the API server makes none of less than ten minutes. The API server takes it for its own: it is signed
// with its key.
func (c *Cluster) PodToken(t testing.TB, pod, account Object, audience string, life time.Duration) string {
	t.Helper()
	text, err := os.ReadFile(c.path("accounts.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	begun, refer := time.Now().Add(-time.Second), func(o Object) map[string]string {
		return map[string]string{"name": o.Meta("name"), "uid": o.Meta("uid")}
	}
	out, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://kubernetes.default.svc", Audience: jwt.Audience{audience},
		Subject:  "system:serviceaccount:" + account.Meta("namespace") + ":" + account.Meta("name"),
		IssuedAt: jwt.NewNumericDate(begun), NotBefore: jwt.NewNumericDate(begun), Expiry: jwt.NewNumericDate(time.Now().Add(life)),
	}).Claims(map[string]any{"kubernetes.io": map[string]any{
		"namespace": account.Meta("namespace"), "pod": refer(pod), "serviceaccount": refer(account),
	}}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
