package ca

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/ca/issued"
)

// listed names a certificate on a CRL; one on the CRLs of all issuers has no issuer.
type listed struct{ issuer, serial string }

// complete returns a state with the revocations added.
func (c *CA) complete(st *state) *state {
	n := *st
	n.revoked = c.revoked
	n.lists = c.makeLists(&n)
	if was := c.state; was != nil && was.revoked == n.revoked && equalCRL(was.crl, n.crl) && was.index != nil {
		n.index = was.index
		return &n
	}
	n.index = map[listed]bool{}
	for _, l := range n.crl {
		for _, r := range l.RevokedCertificateEntries {
			n.index[listed{issued.Tag(l.RawIssuer), r.SerialNumber.Text(16)}] = true
		}
	}
	for _, r := range n.revoked.Certificates {
		n.index[listed{r.Issuer, r.Serial}] = true
	}
	return &n
}

// makeLists returns the CRLs in force: the plugged-in ones and, if something is revoked here, one for each issuer that has its key here.
// Such a CRL replaces the issuer's plugged-in one and has its entries. The same state gives the same bytes, in every process and at any
// time, so that agents do not get them again.
func (c *CA) makeLists(st *state) []*x509.RevocationList {
	if len(st.revoked.Certificates) == 0 {
		return st.crl
	}
	var out []*x509.RevocationList
	own := map[string]bool{}
	for _, by := range st.signers() {
		list, err := st.list(by, c.opts.Backdate)
		if err != nil {
			c.opts.Log.Error("an issuer cannot revoke", "issuer", nameOf(by.cert), "error", err)
			continue
		}
		own[string(by.cert.RawSubject)] = true
		out = append(out, list)
	}
	for _, l := range st.crl {
		if !own[string(l.RawIssuer)] {
			out = append(out, l)
		}
	}
	return out
}

// list makes an issuer's CRL. It ends with the issuer: with an earlier end, every certificate would be refused if the control plane were
// away for that long.
func (s *state) list(by *signer, backdate time.Duration) (*x509.RevocationList, error) {
	template := &x509.RevocationList{
		Number:     big.NewInt(s.revoked.Number),
		ThisUpdate: s.revoked.Changed.Add(-backdate),
		NextUpdate: by.cert.NotAfter,
	}
	there := map[string]bool{}
	for _, l := range s.crl {
		if !bytes.Equal(l.RawIssuer, by.cert.RawSubject) {
			continue
		}
		if l.Number != nil {
			template.Number.Add(template.Number, l.Number)
		}
		template.ThisUpdate, template.NextUpdate = later(template.ThisUpdate, l.ThisUpdate), l.NextUpdate
		for _, r := range l.RevokedCertificateEntries {
			there[r.SerialNumber.Text(16)] = true
			template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, r)
		}
	}
	tag := issued.Tag(by.cert.RawSubject)
	for _, r := range s.revoked.Certificates {
		if r.Issuer != "" && r.Issuer != tag || there[r.Serial] {
			continue
		}
		n, ok := new(big.Int).SetString(r.Serial, 16)
		if !ok {
			return nil, fmt.Errorf("serial number %.60q", r.Serial)
		}
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: n, RevocationTime: r.At})
	}
	if template.NextUpdate.IsZero() {
		template.NextUpdate = by.cert.NotAfter
	}
	// Without a source of randomness ECDSA's signature is a function of the text (RFC 6979), as RSA's and Ed25519's are anyway.
	der, err := x509.CreateRevocationList(nil, template, by.cert, by.key.signer())
	if err != nil {
		return nil, err
	}
	return x509.ParseRevocationList(der)
}

// Revoked reports whether a certificate of this authority is revoked: a CRL lists it, or its identity is revoked; if the identity was
// restored, only certificates from before its revocation are.
func (c *CA) Revoked(cert *x509.Certificate) bool {
	st := c.current()
	if st.unknown != nil { // the revocations are not known either
		return true
	}
	serial := cert.SerialNumber.Text(16)
	if st.index[listed{issued.Tag(cert.RawIssuer), serial}] || st.index[listed{"", serial}] {
		return true
	}
	if len(st.revoked.Identities) == 0 {
		return false
	}
	id, err := identity.FromCertificate(cert)
	if err != nil {
		return false // no workload's
	}
	since := cert.NotBefore.Add(c.opts.Backdate)
	for _, r := range st.revoked.Identities {
		if covers(r.ID, id) && (r.Restored.IsZero() || !since.After(r.At)) {
			return true
		}
	}
	return false
}

// Barred returns ErrBarred if an identity is barred: it gets no certificate, whatever its proof.
func (c *CA) Barred(id identity.ID) error {
	if err := c.Unknown(); err != nil {
		return err
	}
	for _, r := range c.current().revoked.Identities {
		if r.Restored.IsZero() && covers(r.ID, id) {
			return fmt.Errorf("%w: %s, on %s; an operator lets it in again with `pilot-discovery ca restore %s`", ErrBarred, id,
				r.At.UTC().Format(time.RFC3339), Name(r.ID))
		}
	}
	return nil
}

// afterRevocation returns the time before which no certificate of an identity may be valid if the identity was restored, so that its new
// certificates differ from the revoked ones; the zero time otherwise.
func (c *CA) afterRevocation(id identity.ID) (at time.Time) {
	for _, r := range c.current().revoked.Identities {
		if covers(r.ID, id) {
			at = later(at, r.At.Add(time.Second-c.opts.Backdate))
		}
	}
	return at
}

// followRevoked applies the revocations of the folder, and keeps its list in order.
func (c *CA) followRevoked() error {
	if c.revocations == nil {
		return nil
	}
	changed, err := c.readRevoked()
	if err != nil {
		return err
	}
	return c.tidyRevoked(changed)
}

// tidyRevoked keeps the list in order, after it was read. changed: another process has changed it.
func (c *CA) tidyRevoked(changed bool) error {
	if c.revocations == nil {
		return nil
	}
	// By now the record has all certificates that barred identities got before the list was put in force.
	if v := c.current().revoked; changed && len(v.shutOut()) > 0 || v.ended(c.opts.Now()) > 0 {
		if err := c.revocations.tidy(); err != nil {
			return err
		}
		if _, err := c.readRevoked(); err != nil {
			return err
		}
	}
	return c.issued.Clean(c.opts.Now())
}

func (c *CA) readRevoked() (changed bool, err error) {
	v, err := c.revocations.List()
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Number == c.revoked.Number && v.Changed.Equal(c.revoked.Changed) {
		return false, nil
	}
	if v.Number < c.revoked.Number {
		return false, errors.New(revokedFile + " is older than the version that was read, or is gone")
	}
	c.opts.Log.Info("the list of revoked identities has changed", "scope", "audit", "number", v.Number, "identities", len(v.Identities),
		"certificates", len(v.Certificates))
	c.revoked = v
	c.set(c.state)
	c.warnOfLists(c.state)
	return true, nil
}
