package live

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Secret returns a Secret as YAML. name may have a namespace ("namespace/name"), otherwise it is default. The Secret holds a pair and, if
// files are given, an authority and the list of revoked certificates. Any proxy of the namespace, and any of this machine, may have it.
func Secret(t testing.TB, name string, pair Pair, authorities ...string) string {
	t.Helper()
	namespace, short := placed(name)
	out := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + short + ", namespace: " + namespace + ", annotations: " +
		"{fairway/service-accounts: \"*\"}}\nstringData:\n"
	put := func(key, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out += "  " + key + ": |\n    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
	}
	if pair.CertFile != "" {
		put("tls.crt", pair.CertFile)
		put("tls.key", pair.KeyFile)
	}
	for i, file := range authorities {
		put([]string{"ca.crt", "ca.crl"}[i], file)
	}
	return out
}

// placed takes "namespace/name" apart; a name alone is one of namespace default.
func placed(name string) (namespace, short string) {
	namespace, short, ok := strings.Cut(name, "/")
	if !ok {
		return "default", name
	}
	return namespace, short
}

// ConfigMap returns a ConfigMap as YAML, with an authority's certificate, by the file that it is in. name is as in Secret.
func ConfigMap(t testing.TB, name, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	namespace, short := placed(name)
	return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + short + ", namespace: " + namespace + "}\ndata:\n  ca.crt: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
}

// Shows tells whether a new connection, made as the request says, is shown a certificate.
func Shows(r Request, want Pair) error {
	c, err := tls.Dial("tcp", r.To, r.TLS)
	if err != nil {
		return err
	}
	defer c.Close()
	if got := c.ConnectionState().PeerCertificates[0]; !bytes.Equal(got.Raw, want.Certificate.Certificate[0]) {
		return fmt.Errorf("a new connection is shown the certificate with serial %v", got.SerialNumber)
	}
	return nil
}
