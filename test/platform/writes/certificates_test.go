package writes_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"fairway/test/plane"
	"fairway/test/rig"
)

// asked is the mesh configuration of TestCertificates.
func asked(certificates string) string {
	return fmt.Sprintf(`
kind: ConfigMap
apiVersion: v1
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    certificates: %s
`, certificates)
}

// secret is what a Secret of a certificate has.
type secret struct {
	Type string
	Data map[string][]byte
}

// TestCertificates: certificates for names that the mesh configuration lists are kept in Secrets, as the authority signs them. A Secret
// that is deleted or spoilt comes back, other names get another certificate, and a Secret of another owner is left alone.
func TestCertificates(t *testing.T) {
	t.Parallel()
	w := start(t)
	const at = "/api/v1/namespaces/istio-system/secrets/"
	w.Apply(t, asked(`[{secretName: dns.web, dnsNames: [web.shop.svc, web.shop]}, {secretName: theirs, dnsNames: [a.shop.svc]}]`)+`---
kind: Secret
apiVersion: v1
metadata: {name: theirs, namespace: istio-system}
stringData: {password: secret}
`)
	p := plane.Start(t, w.secured(t))
	holds := func(names ...string) (out secret) {
		t.Helper()
		rig.Eventually(t, func() error {
			out = secret{}
			if err := w.get(t.Context(), at+"dns.web", &out); err != nil {
				return err
			}
			pair, err := tls.X509KeyPair(out.Data["cert-chain.pem"], out.Data["key.pem"])
			if err != nil {
				return err
			}
			got := slices.Sorted(slices.Values(pair.Leaf.DNSNames))
			if !slices.Equal(got, names) || out.Type != "istio.io/dns-key-and-cert" {
				return fmt.Errorf("a Secret of type %q has a certificate for %q, want %q", out.Type, got, names)
			}
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(out.Data["root-cert.pem"]) {
				return fmt.Errorf("there are no roots: %q", out.Data["root-cert.pem"])
			}
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: names[0]})
			return err
		})
		return out
	}
	first := holds("web.shop", "web.shop.svc")

	if _, err := w.Do(t.Context(), http.MethodDelete, at+"dns.web", "", nil); err != nil {
		t.Fatal(err)
	}
	second := holds("web.shop", "web.shop.svc")
	if string(first.Data["key.pem"]) == string(second.Data["key.pem"]) {
		t.Error("the key is the one of the Secret that was deleted")
	}
	w.Patch(t, at+"dns.web", `{"data":{"key.pem":"c3BvaWx0"}}`)
	holds("web.shop", "web.shop.svc")

	w.Apply(t, asked(`[{secretName: dns.web, dnsNames: [web.shop.svc]}, {secretName: "No Name", dnsNames: [a]}]`))
	holds("web.shop.svc")
	rig.Eventually(t, func() error {
		for _, problem := range p.Discovery.Problems() {
			if problem.Field == "certificates[1].secretName" {
				return nil
			}
		}
		return fmt.Errorf("nothing is said of a wrong name: %v", p.Discovery.Problems())
	})
	var theirs secret
	if err := w.get(t.Context(), at+"theirs", &theirs); err != nil {
		t.Fatal(err)
	}
	if theirs.Type != "Opaque" || len(theirs.Data) != 1 {
		t.Errorf("somebody else's Secret is written over: %+v", theirs)
	}
}
