package cluster

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"fairway/test/rig"
)

// Admin is a client's configuration that may do everything.
func (c *Cluster) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig writes a kubeconfig for a user of some groups, through a gate unless that is nil. Objects of RBAC decide
// what the user may do; the group system:masters may do everything.
func (c *Cluster) Kubeconfig(t testing.TB, through *Gate, user string, groups ...string) string {
	t.Helper()
	return rig.Write(t, c.dir, user+".kubeconfig", c.kubeconfig(c.ca.client(t, user, groups...), c.portOf(through)))
}

// Config is what Kubeconfig writes, for clients inside the test.
func (c *Cluster) Config(t testing.TB, through *Gate, user string, groups ...string) *rest.Config {
	t.Helper()
	return c.config(c.ca.client(t, user, groups...), c.portOf(through))
}

func (c *Cluster) portOf(through *Gate) uint16 {
	if through == nil {
		return c.port
	}
	return through.Port()
}

func (c *Cluster) config(as pair, port uint16) *rest.Config {
	out := &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", port),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem, CertData: as.certificate, KeyData: as.key},
		QPS:             -1, // as fast as the server answers
	}
	if c.in != nil {
		out.Dial = c.in.DialContext
	}
	return out
}

func (c *Cluster) kubeconfig(as pair, port uint16) []byte {
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%d", certificate-authority-data: %s}}]
users: [{name: own, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: test, context: {cluster: test, user: own}}]
current-context: test
`, port, text(c.ca.pem), text(as.certificate), text(as.key))
}

func public(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}
