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

// trust is whom the workload believes, by who said so.
type trust struct {
	withCertificate *trusted  // that came with the certificate in force; nil before the first
	byStream        *trusted  // that the control plane has sent on its stream; nil: it has said nothing
	saidAt          time.Time // when it last did
	// confirmed: the control plane has spoken since the certificate came, so nothing that came with that can be newer.
	confirmed bool
}

// inForce is what to believe; nil: nothing is known yet. What the control plane says counts alone, since it also takes
// roots away; where that might be older than what came with the certificate, or does not stand behind the workload's
// own certificate, which may be another authority's, both count.
func (b trust) inForce(own *pair, now time.Time) *trusted {
	switch {
	case b.byStream == nil:
		return b.withCertificate
	case b.withCertificate == nil, b.confirmed && own.leadsTo(b.byStream, now):
		return b.byStream
	}
	return b.byStream.and(b.withCertificate)
}

// leadsTo says whether roots stand behind a certificate.
func (p *pair) leadsTo(t *trusted, now time.Time) bool {
	return p != nil && p.verify(t, now) == nil
}

// and is what either holds, in t's order.
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

// lists are the CRLs that can be read.
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

// onlyLeafLists says whether CRLs can be asked for the certificates of workloads alone: Envoy refuses a chain in which
// any issuer has no list, and a root that signs authorities only seldom has one
// (CertificateValidationContext.only_verify_leaf_cert_crl).
func (t *trusted) onlyLeafLists() bool {
	lists := t.lists()
	return len(t.crl) > 0 && slices.ContainsFunc(t.certs, func(root *x509.Certificate) bool {
		return !slices.ContainsFunc(lists, func(l *x509.RevocationList) bool { return bytes.Equal(l.RawIssuer, root.RawSubject) })
	})
}

// TakeBundle puts in force what the control plane says is to be believed: certificates and CRLs in PEM. Whoever calls
// it knows that it was the control plane. What cannot be used is an error, and changes nothing. Certificates of SPIRE
// and from files have their roots from there: a bundle is an error then too.
func (s *Secrets) TakeBundle(text []byte) error {
	if s.opts.Authority == nil {
		return errors.New("the workload's certificate does not come from the mesh's authority, and neither do its roots")
	}
	t, err := newTrusted(text)
	if err != nil {
		return err
	}
	s.noteControlPlane()
	return s.updateTrust(nil, func(b *trust) { b.byStream, b.saidAt, b.confirmed = t, s.opts.Now(), true })
}

// ConfirmBundle notes that the control plane has nothing newer to say than what TakeBundle took.
func (s *Secrets) ConfirmBundle() error {
	s.noteControlPlane()
	return s.updateTrust(nil, func(b *trust) { b.confirmed = b.byStream != nil })
}

// noteControlPlane notes that the control plane is there.
func (s *Secrets) noteControlPlane() {
	select {
	case s.controlPlane <- struct{}{}:
	default: // noted already
	}
}

// ForgetBundle notes that the control plane says nothing of roots any more. What is believed stays so until the next
// certificate comes with its own.
func (s *Secrets) ForgetBundle() error {
	return s.updateTrust(nil, func(b *trust) {
		if b.byStream != nil {
			s.opts.Log.Warn("the control plane has stopped telling whom to believe; what it said last holds until the next certificate")
			*b = trust{withCertificate: b.byStream}
		}
	})
}

// updateTrust changes what is believed and serves it; p is a certificate that comes into force with it, nil where that
// stays. Roots are served before certificates: peers may have been given a certificate of a new root already.
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

// inForce is what is believed now; callers hold mu.
func (s *Secrets) inForce() *trusted { return s.trust.inForce(s.pair, s.opts.Now()) }

// describeTrust notes what Status tells; callers hold mu.
func (s *Secrets) describeTrust(t *trusted, version string) {
	since := s.opts.Now()
	if c := s.known[RootName]; c != nil && c.Version == version {
		since = c.Since
	}
	s.describeRoots(RootName, t)
	c := s.known[RootName]
	c.Version, c.Told, c.Since = version, s.trust.saidAt, since
	for _, list := range t.lists() {
		c.Revoked += len(list.RevokedCertificateEntries)
	}
}

// writeRoots puts them, and what is revoked, into files for those who asked for that; an agent that starts anew knows
// the control plane by them. Callers hold updating.
func (s *Secrets) writeRoots(t *trusted) {
	a := s.opts.Authority
	if a == nil || a.OutputDir == "" {
		return
	}
	err := safefile.Write(filepath.Join(a.OutputDir, rootFile), t.roots, 0o644)
	if crl := filepath.Join(a.OutputDir, crlFile); err == nil && len(t.crl) > 0 {
		err = safefile.Write(crl, t.crl, 0o644)
	} else if err == nil {
		_ = os.Remove(crl) // fails where there is none
	}
	if err != nil {
		s.opts.Log.Error("the roots are not written to a file (OUTPUT_CERTS)", "error", err)
	}
}

// withRevoked adds the lists of the CRL file to those that came with the roots. A file that is not there holds none.
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
