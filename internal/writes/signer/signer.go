package signer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"fairway/internal/kubeclient"
	"fairway/internal/writes/work"
)

// Options of a Signer.
type Options struct {
	Client  *kubeclient.Clients
	Name    string // of the signer, as spec.signerName has it
	Manager string // of the fields that are written
}

// Signer requests certificates. Any goroutine may use it.
type Signer struct {
	o     Options
	roots *work.Setting[[]byte]

	mu      sync.Mutex
	waiting map[string]request // by its names
}

// request is a request without an answer yet. Its key is stored nowhere else.
type request struct {
	name string // of the CertificateSigningRequest
	key  *ecdsa.PrivateKey
}

// New returns a signer. It signs nothing until Believe sets its roots.
func New(o Options) *Signer {
	return &Signer{o: o, roots: work.NewSetting(bytes.Equal), waiting: map[string]request{}}
}

// Believe sets the roots of the signer's certificates, in PEM; empty: they are not known.
func (s *Signer) Believe(roots []byte) { s.roots.Set(roots) }

// Roots returns the roots that Believe set.
func (s *Signer) Roots() []byte { return s.roots.Value() }

// Changed is closed when Believe sets other roots.
func (s *Signer) Changed() <-chan struct{} { return s.roots.Changed() }

// mostAnswer bounds the certificates in a signer's answer, in bytes.
const mostAnswer = 64 << 10

// Certificate requests a certificate with a new key for DNS names, and waits for it until ctx ends. If the request is not answered by then,
// the next call for the same names goes on waiting for it: a person may have to approve it.
func (s *Signer) Certificate(ctx context.Context, names []string) (*tls.Certificate, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.Roots()) {
		return nil, fmt.Errorf("the roots for certificates of %s are missing: write them as pem into an entry of the mesh "+
			"configuration's caCertificates that has it among certSigners", s.o.Name)
	}
	asked, err := s.ask(ctx, names)
	if err != nil {
		return nil, err
	}
	chain, err := s.answer(ctx, asked)
	if err != nil {
		if no := new(refusal); errors.As(err, no) || apierrors.IsNotFound(err) {
			s.forget(names)
		}
		return nil, err
	}
	s.forget(names)
	made, err := checked(chain, asked.key, names, roots)
	if err != nil {
		return nil, fmt.Errorf("CertificateSigningRequest %s: %w", asked.name, err)
	}
	// The certificate is in hand. If the request cannot be deleted, Kubernetes deletes it after an hour.
	_ = s.o.Client.SigningRequests().Delete(ctx, asked.name, metav1.DeleteOptions{})
	return made, nil
}

func (s *Signer) forget(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, strings.Join(names, ","))
}

// ask creates the request, unless there is one for the names.
func (s *Signer) ask(ctx context.Context, names []string) (request, error) {
	of := strings.Join(names, ",")
	s.mu.Lock()
	r, ok := s.waiting[of]
	s.mu.Unlock()
	if ok {
		return r, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return request{}, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: commonName(names)}, DNSNames: names,
	}, key)
	if err != nil {
		return request{}, fmt.Errorf("a request for %s: %w", of, err)
	}
	made, err := s.o.Client.SigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: s.o.Manager + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: s.o.Name,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth,
			},
		},
	}, metav1.CreateOptions{FieldManager: s.o.Manager})
	if err != nil {
		return request{}, fmt.Errorf("ask %s to sign for %s: %w", s.o.Name, of, err)
	}
	r = request{made.Name, key}
	s.mu.Lock()
	s.waiting[of] = r
	s.mu.Unlock()
	return r, nil
}

// commonName returns the first name that can be a common name: it has 64 bytes at most (RFC 5280, appendix A).
func commonName(names []string) string {
	for _, name := range names {
		if len(name) <= 64 {
			return name
		}
	}
	return ""
}

// answer has a request approved, and waits for the signed certificate.
func (s *Signer) answer(ctx context.Context, r request) ([]byte, error) {
	all := s.o.Client.SigningRequests()
	is, err := all.Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	approved := s.approve(ctx, is)
	by := fields.OneTermEqualSelector("metadata.name", r.name).String()
	for {
		if done, err := s.outcome(is); err != nil || len(done) > 0 {
			return done, err
		}
		w, err := all.Watch(ctx, metav1.ListOptions{FieldSelector: by, ResourceVersion: is.ResourceVersion})
		if err != nil {
			return nil, s.late(ctx, r, approved, err)
		}
		next := newest(ctx, w)
		w.Stop()
		if next == nil { // the watch ended, or is too old
			if next, err = all.Get(ctx, r.name, metav1.GetOptions{}); err != nil {
				return nil, s.late(ctx, r, approved, err)
			}
		}
		is = next
	}
}

// newest returns the first object of a watch; nil: the watch ended before.
func newest(ctx context.Context, w watch.Interface) *certificatesv1.CertificateSigningRequest {
	select {
	case e := <-w.ResultChan():
		if e.Type == watch.Added || e.Type == watch.Modified {
			is, _ := e.Object.(*certificatesv1.CertificateSigningRequest)
			return is
		}
	case <-ctx.Done():
	}
	return nil
}

// late explains why there is no answer when the time is over.
func (s *Signer) late(ctx context.Context, r request, approved, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case approved != nil:
		return fmt.Errorf("CertificateSigningRequest %s waits for somebody who approves it: %w", r.name, approved)
	default:
		return fmt.Errorf("CertificateSigningRequest %s is approved, and waits for its signer %s", r.name, s.o.Name)
	}
}

// approve approves a request unless it is already approved or denied. If the control plane lacks the right, someone else has to approve.
func (s *Signer) approve(ctx context.Context, is *certificatesv1.CertificateSigningRequest) error {
	if len(is.Status.Conditions) > 0 {
		return nil
	}
	is = is.DeepCopy()
	is.Status.Conditions = append(is.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "ControlPlane",
		Message: "the control plane asks for it itself",
	})
	return s.o.Client.Approve(ctx, is, metav1.UpdateOptions{FieldManager: s.o.Manager})
}

// refusal is the error of a request that will never get a certificate.
type refusal struct{ error }

// outcome returns the signed certificate; nothing until the request is answered.
func (s *Signer) outcome(is *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range is.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, refusal{fmt.Errorf("CertificateSigningRequest %s is %s: %s: %s",
				is.Name, strings.ToLower(string(c.Type)), c.Reason, c.Message)}
		}
	}
	if len(is.Status.Certificate) > mostAnswer {
		return nil, refusal{fmt.Errorf("CertificateSigningRequest %s: the answer has %d bytes, more than %d",
			is.Name, len(is.Status.Certificate), mostAnswer)}
	}
	return is.Status.Certificate, nil
}

// checked joins certificate and key if they fit together and the certificate is for the names that were requested.
func checked(chain []byte, key *ecdsa.PrivateKey, names []string, roots *x509.CertPool) (*tls.Certificate, error) {
	out := tls.Certificate{PrivateKey: key}
	between := x509.NewCertPool()
	for rest := chain; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, err
		case out.Leaf == nil:
			out.Leaf = c
		default:
			between.AddCert(c)
		}
		out.Certificate = append(out.Certificate, block.Bytes)
	}
	if out.Leaf == nil {
		return nil, errors.New("the answer is not a certificate in PEM")
	}
	if !key.PublicKey.Equal(out.Leaf.PublicKey) {
		return nil, errors.New("the signed certificate is for another key")
	}
	for _, name := range names {
		if _, err := out.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between}); err != nil {
			return nil, fmt.Errorf("the signed certificate for %s is not verified by the roots of caCertificates: %w", name, err)
		}
	}
	return &out, nil
}
