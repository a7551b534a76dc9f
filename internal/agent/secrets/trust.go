package secrets

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairway/internal/identity/safefile"
)

// trust holds the roots that the workload trusts, by their source.
type trust struct {
	withCertificate *trusted  // that came with the certificate in force; nil before the first
	byStream        *trusted  // that the control plane has sent on its stream; nil: it has sent none
	receivedAt      time.Time // when it last did
	// confirmed: the control plane has answered since the certificate came, so the roots that came with that cannot be newer.
	confirmed bool
}

// inForce returns the roots to trust; nil: none are known yet. The control plane's roots count alone, since it also removes roots.
// Both count if the control plane's might be older than those that came with the certificate, or if the workload's own certificate
// has no chain to them, because another authority may have signed it.
func (b trust) inForce(own *pair, now time.Time) *trusted {
	switch {
	case b.byStream == nil:
		return b.withCertificate
	case b.withCertificate == nil, b.confirmed && own.leadsTo(b.byStream, now):
		return b.byStream
	}
	return b.byStream.and(b.withCertificate)
}

// leadsTo reports whether a certificate has a chain to roots.
func (p *pair) leadsTo(t *trusted, now time.Time) bool {
	return p != nil && p.verify(t, now) == nil
}

// and returns the union of both, in t's order.
func (t *trusted) and(other *trusted) *trusted {
	out := &trusted{slices.Clone(t.roots), slices.Clone(t.crl), slices.Clone(t.certs)}
	for _, c := range other.certs {
		if !slices.ContainsFunc(t.certs, c.Equal) {
			out.certs = append(out.certs, c)
			out.roots = append(out.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
	}
	for block, rest := pem.Decode(other.crl); block != nil; block, rest = pem.Decode(rest) {
		if text := pem.EncodeToMemory(block); !bytes.Contains(t.crl, text) {
			out.crl = append(out.crl, text...)
		}
	}
	return out
}

// lists returns the CRLs that can be read.
func (t *trusted) lists() []*x509.RevocationList {
	var out []*x509.RevocationList
	for block, rest := pem.Decode(t.crl); block != nil; block, rest = pem.Decode(rest) {
		if list, err := x509.ParseRevocationList(block.Bytes); err == nil {
			out = append(out, list)
		}
	}
	return out
}

func (t *trusted) same(other *trusted) bool {
	return other != nil && bytes.Equal(t.roots, other.roots) && bytes.Equal(t.crl, other.crl)
}

// onlyLeafLists reports whether CRLs can be checked only for the certificates of workloads: Envoy refuses a chain if any issuer has no
// CRL, and a root that signs only authorities seldom has one (CertificateValidationContext.only_verify_leaf_cert_crl).
func (t *trusted) onlyLeafLists() bool {
	lists := t.lists()
	return len(t.crl) > 0 && slices.ContainsFunc(t.certs, func(root *x509.Certificate) bool {
		return !slices.ContainsFunc(lists, func(l *x509.RevocationList) bool { return bytes.Equal(l.RawIssuer, root.RawSubject) })
	})
}

// TakeBundle puts in force the roots that the control plane sent: certificates and CRLs in PEM. The caller has to know that they
// come from the control plane. An invalid bundle is an error, and changes nothing. Certificates of SPIRE and from files have their
// own roots: a bundle is an error then too.
func (s *Secrets) TakeBundle(text []byte) error {
	if s.opts.Authority == nil {
		return errors.New("the workload's certificate does not come from the mesh's authority, and neither do its roots")
	}
	t, err := newTrusted(text)
	if err != nil {
		return err
	}
	s.noteControlPlane()
	return s.updateTrust(nil, func(b *trust) { b.byStream, b.receivedAt, b.confirmed = t, s.opts.Now(), true })
}

// ConfirmBundle notes that the control plane has no newer roots than those that TakeBundle took.
func (s *Secrets) ConfirmBundle() error {
	s.noteControlPlane()
	return s.updateTrust(nil, func(b *trust) { b.confirmed = b.byStream != nil })
}

// noteControlPlane notes that the control plane answers.
func (s *Secrets) noteControlPlane() {
	select {
	case s.controlPlane <- struct{}{}:
	default: // noted already
	}
}

// ForgetBundle notes that the control plane does not send roots any more. The trusted roots stay until the next certificate comes
// with its own.
func (s *Secrets) ForgetBundle() error {
	return s.updateTrust(nil, func(b *trust) {
		if b.byStream != nil {
			s.opts.Log.Warn("the control plane no longer sends trusted roots; the last ones stay in force until the next certificate")
			*b = trust{withCertificate: b.byStream}
		}
	})
}

// updateTrust changes the trusted roots and serves them; p is a certificate that comes into force with them, nil if the certificate
// stays. Roots are served before certificates: peers may already have a certificate of a new root.
func (s *Secrets) updateTrust(p *pair, change func(*trust)) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	s.mu.Lock()
	next, before, own := s.trust, s.inForce(), cmp.Or(p, s.pair)
	s.mu.Unlock()
	change(&next)
	t := next.inForce(own, s.opts.Now())
	if t == nil {
		return nil
	}
	served := s.withRevoked(t)
	r, err := rootResource(RootName, served)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.trust, s.pair = next, own
	s.describeTrust(served, r.version)
	s.mu.Unlock()
	s.store.put(RootName, r)
	if !t.same(before) {
		s.opts.Log.Info("roots", "version", r.version, "roots", len(t.certs), "crls", len(served.lists()), "byStream", next.confirmed)
		s.writeRoots(t)
	}
	return nil
}

// inForce returns the roots that are trusted now; callers hold mu.
func (s *Secrets) inForce() *trusted { return s.trust.inForce(s.pair, s.opts.Now()) }

// describeTrust notes what Status returns; callers hold mu.
func (s *Secrets) describeTrust(t *trusted, version string) {
	since := s.opts.Now()
	if c := s.known[RootName]; c != nil && c.Version == version {
		since = c.Since
	}
	s.describeRoots(RootName, t)
	c := s.known[RootName]
	c.Version, c.LastSent, c.Since = version, s.trust.receivedAt, since
	for _, list := range t.lists() {
		c.Revoked += len(list.RevokedCertificateEntries)
	}
}

// writeRoots writes roots and CRLs into files if OutputDir is set; the
// next agent verifies the control plane with them. Callers hold updating.
func (s *Secrets) writeRoots(t *trusted) {
	a := s.opts.Authority
	if a == nil || a.OutputDir == "" {
		return
	}
	err := safefile.Write(filepath.Join(a.OutputDir, rootFile), t.roots, 0o644)
	if crl := filepath.Join(a.OutputDir, crlFile); err == nil && len(t.crl) > 0 {
		err = safefile.Write(crl, t.crl, 0o644)
	} else if err == nil {
		_ = os.Remove(crl) // fails if there is none
	}
	if err != nil {
		s.opts.Log.Error("the roots are not written to a file (OUTPUT_CERTS)", "error", err)
	}
}

// withRevoked adds the lists of the CRL file to those that came with the roots. A missing file holds none.
func (s *Secrets) withRevoked(t *trusted) *trusted {
	if s.opts.CRL == "" {
		return t
	}
	text, err := safefile.Read(s.opts.CRL, longestFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.opts.Log.Error("the file of revoked certificates cannot be read", "error", err)
	}
	with := *t
	with.crl = append(append([]byte{}, t.crl...), blocks(text, "X509 CRL")...)
	return &with
}
