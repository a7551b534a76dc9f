package writes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"fairway/internal/mesh"
	"fairway/test/plane"
	"fairway/test/rig"
)

const (
	signerName = "example.com/mesh"
	requests   = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// signs is a signer of Kubernetes: it signs only approved requests.
type signs struct {
	world
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSigner(t *testing.T, w world) signs {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "signer"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signs{w, t, cert, key}
}

func (s signs) root() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw})
}

// list is what there is of requests to this signer.
func (s signs) list() (out []certificatesv1.CertificateSigningRequest) {
	s.t.Helper()
	var all certificatesv1.CertificateSigningRequestList
	if err := s.get(s.t.Context(), requests, &all); err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(r certificatesv1.CertificateSigningRequest) bool { return r.Spec.SignerName != signerName })
}

// approved reports whether the request was approved.
func approved(r certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	})
}

// sign signs the approved requests that have no certificate yet.
func (s signs) sign() {
	s.t.Helper()
	for _, r := range s.list() {
		if !approved(r) || len(r.Status.Certificate) > 0 {
			continue
		}
		block, _ := pem.Decode(r.Spec.Request)
		asked, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			s.t.Fatal(err)
		}
		serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: asked.Subject.CommonName}, DNSNames: asked.DNSNames,
			NotBefore: time.Now().Add(-time.Second), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, s.cert, asked.PublicKey, s.key)
		if err != nil {
			s.t.Fatal(err)
		}
		r.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		body, err := json.Marshal(map[string]any{"status": map[string]any{"certificate": r.Status.Certificate}})
		if err != nil {
			s.t.Fatal(err)
		}
		_, err = s.Do(s.t.Context(), http.MethodPatch, requests+"/"+r.Name+"/status", "application/merge-patch+json", body)
		if err != nil && !strings.Contains(err.Error(), "not found") {
			s.t.Fatal(err)
		}
	}
}

// told is a control plane; tests read its page /debug/writez.
type told struct{ *plane.Plane }

func (p told) said(text string) error {
	_, page, err := rig.Call(http.MethodGet, "http://"+p.Discovery.HTTPAddr()+"/debug/writez", nil)
	if err == nil && !strings.Contains(page, text) {
		err = fmt.Errorf("%q is not among %s", text, page)
	}
	return err
}

// shown is the certificate that the control plane shows to API servers.
func shown(ctx context.Context, addr string, roots []byte) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	d := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "istiod.istio-system.svc"}}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// TestSigner: a signer of Kubernetes signs what API servers are shown and the certificates that the mesh configuration asks for. The
// control plane approves its own requests, and takes nothing that its roots do not vouch for.
func TestSigner(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := newSigner(t, w)
	w.Apply(t, strings.NewReplacer("ADDRESS", "127.0.0.1:1", "NAME", "default").Replace(hooks))
	mesh := func(root []byte) string {
		return asked(fmt.Sprintf("[{secretName: dns.web, dnsNames: [web.shop.svc]}]\n    caCertificates: [{certSigners: [%s], pem: %q}]",
			signerName, root))
	}
	w.Apply(t, mesh(s.root()))
	o := w.secured(t)
	o.Signer = signerName
	p := told{plane.Start(t, o)}

	// One by the wrong authority is not taken.
	other := newSigner(t, w)
	rig.Eventually(t, func() error {
		other.sign()
		return p.said("is not verified by the roots of caCertificates")
	})
	if shown(t.Context(), p.Discovery.HTTPSAddr(), other.root()) == nil {
		t.Fatal("a certificate is shown that the roots do not vouch for")
	}
	refused := 0 // one or two: the control plane asks for its own certificate and for the Secret's
	for _, r := range s.list() {
		if len(r.Status.Certificate) > 0 {
			refused++
		}
	}

	var first secret
	rig.Eventually(t, func() error {
		s.sign()
		return errors.Join(shown(t.Context(), p.Discovery.HTTPSAddr(), s.root()), s.kept(&first))
	})
	if string(first.Data["root-cert.pem"]) != string(s.root())+"\n" {
		t.Errorf("the roots are %q", first.Data["root-cert.pem"])
	}
	rig.Eventually(t, func() error {
		var hook struct {
			Webhooks []struct{ ClientConfig struct{ CABundle []byte } }
		}
		const at = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/istio-sidecar-injector-default"
		if err := w.get(t.Context(), at, &hook); err != nil {
			return err
		}
		if !strings.Contains(string(hook.Webhooks[0].ClientConfig.CABundle), string(s.root())) {
			return errors.New("API servers are not told the signer's root")
		}
		return nil
	})
	rig.Eventually(t, func() error {
		if left := s.list(); len(left) > refused { // those that another authority signed stay, for an administrator to look at
			return fmt.Errorf("%d requests are left", len(left))
		}
		return nil
	})

	// Another authority: all is signed again.
	w.Apply(t, mesh(other.root()))
	var second secret
	rig.Eventually(t, func() error {
		other.sign()
		return errors.Join(shown(t.Context(), p.Discovery.HTTPSAddr(), other.root()), other.kept(&second))
	})
}

// kept reads the Secret, if it is by this signer.
func (s signs) kept(to *secret) error {
	*to = secret{}
	if err := s.get(s.t.Context(), "/api/v1/namespaces/istio-system/secrets/dns.web", to); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(to.Data["cert-chain.pem"], to.Data["key.pem"])
	if err != nil {
		return err
	}
	return pair.Leaf.CheckSignatureFrom(s.cert)
}

// mayAsk are the rights of a control plane that may have certificates signed, and not approve that.
const mayAsk = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: asks}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create, delete]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, update]}
- {apiGroups: [""], resources: [secrets, configmaps], verbs: [create, patch, update]}
---
kind: ClusterRoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: asks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: asks}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: asker}]
`

// TestSignerWithoutRights: a control plane that may request certificates and not approve them waits for an approval, and reports that.
func TestSignerWithoutRights(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := newSigner(t, w)
	w.Apply(t, asked(fmt.Sprintf("[{secretName: dns.web, dnsNames: [web.shop.svc]}]\n    caCertificates: [{certSigners: [%s], pem: %q}]",
		signerName, s.root())))
	w.Apply(t, mayAsk)
	o := w.secured(t)
	o.Kubeconfig = w.Kubeconfig(t, nil, "asker")
	o.Signer = signerName
	p := plane.Start(t, o)
	rig.Eventually(t, func() error {
		if !slices.ContainsFunc(p.Discovery.Problems(), func(n mesh.Problem) bool {
			return strings.Contains(n.Message, "certificatesigningrequests")
		}) {
			return fmt.Errorf("nothing is said of the right that is missing: %v", p.Discovery.Problems())
		}
		return nil
	})
	// An administrator approves all.
	var first secret
	rig.Eventually(t, func() error {
		for _, r := range s.list() {
			if approved(r) {
				continue
			}
			body := `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Administrator"}]}}`
			path := requests + "/" + r.Name + "/approval"
			if _, err := w.Do(t.Context(), http.MethodPatch, path, "application/merge-patch+json", []byte(body)); err != nil {
				return err
			}
		}
		s.sign()
		return s.kept(&first)
	})
}
