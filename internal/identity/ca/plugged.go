package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/safefile"
)

// plugged is the content of a folder of files.
type plugged struct {
	signer *signer
	crl    []*x509.RevocationList
}

// names of the files: Istio's own (secret cacerts), and those of a kubernetes.io/tls secret as cert-manager writes it.
var (
	istioNames = [4]string{"ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"}
	tlsNames   = [4]string{"tls.crt", "tls.key", "tls.crt", "ca.crt"}
)

// crlName is the file with revoked certificates; it need not exist.
const crlName = "ca-crl.pem"

// longestPlugged bounds each of the files, in bytes; the longest is a list of some hundred thousand revoked certificates.
const longestPlugged = 16 << 20

// readPlugged reads a folder; it returns nil if the folder has no certificate. CRLs may also be of the known issuers, because their
// certificates are still in use.
func readPlugged(dir string, now time.Time, known ...*x509.Certificate) (*plugged, error) {
	if dir == "" {
		return nil, nil
	}
	for _, names := range [][4]string{istioNames, tlsNames} {
		if _, err := os.Stat(filepath.Join(dir, names[0])); err == nil {
			return readFiles(dir, names, now, known)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, nil
}

func readFiles(dir string, names [4]string, now time.Time, known []*x509.Certificate) (*plugged, error) {
	cert, err := readCertificates(dir, names[0])
	if err != nil {
		return nil, err
	}
	text, err := safefile.Read(filepath.Join(dir, names[1]), longestPlugged)
	if err != nil {
		return nil, err
	}
	k, err := readKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names[1], err)
	}
	above, err := readChain(dir, names[2])
	if err != nil {
		return nil, err
	}
	roots, err := readCertificates(dir, names[3])
	if err != nil {
		return nil, err
	}
	s, err := newSigner(cert[0], k, append(cert[1:], above...), roots, now)
	if err != nil {
		return nil, err
	}
	crl, err := readCRL(filepath.Join(dir, crlName), slices.Concat(s.roots, s.chain, known), now)
	return &plugged{s, crl}, err
}

// readChain reads the certificates above the signing one. A root that signs by itself has none, and the file may be empty or missing.
func readChain(dir, name string) ([]*x509.Certificate, error) {
	text, err := safefile.Read(filepath.Join(dir, name), longestPlugged)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	return readCertificates(dir, name)
}

func readCertificates(dir, name string) ([]*x509.Certificate, error) {
	text, err := safefile.Read(filepath.Join(dir, name), longestPlugged)
	if err != nil {
		return nil, err
	}
	certs, err := identity.Certificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return certs, nil
}

// readCRL reads the lists that one of the issuers signed. A list of another issuer is an error, because a proxy would refuse it, and so is
// one that is not valid now, because a proxy would then refuse every certificate.
func readCRL(path string, issuers []*x509.Certificate, now time.Time) ([]*x509.RevocationList, error) {
	text, err := safefile.Read(path, longestPlugged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*x509.RevocationList
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", crlName, err)
		}
		if !signedBy(list, issuers) {
			return nil, fmt.Errorf("%s: the list of %s is signed by none of the authority's certificates", crlName, list.Issuer)
		}
		if now.Before(list.ThisUpdate) || !list.NextUpdate.IsZero() && now.After(list.NextUpdate) {
			return nil, fmt.Errorf("%s: the list of %s is for %s to %s; this clock says %s: have the authority make a new one",
				crlName, list.Issuer, list.ThisUpdate.UTC().Format(time.RFC3339), list.NextUpdate.UTC().Format(time.RFC3339),
				now.UTC().Format(time.RFC3339))
		}
		out = append(out, list)
	}
	if len(out) == 0 && len(bytes.TrimSpace(text)) > 0 {
		return nil, fmt.Errorf("%s: no block X509 CRL in PEM", crlName)
	}
	return out, nil
}

func signedBy(list *x509.RevocationList, issuers []*x509.Certificate) bool {
	for _, c := range issuers {
		if bytes.Equal(c.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(c) == nil {
			return true
		}
	}
	return false
}

// reload reads the plugged-in files again. If they cannot be used, nothing changes: a half-replaced set of files becomes usable with its
// last file.
func (c *CA) reload() {
	p, err := readPlugged(c.opts.Plugged, c.opts.Now(), c.current().issuers()...)
	if err != nil {
		c.opts.Log.Error("the plugged-in certificate cannot be used; the one before stays", "folder", c.opts.Plugged, "error", err)
		return
	}
	if p == nil {
		return // the files were removed: the certificate stays until the end of the process
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	st := c.current()
	if next := adopted(c.opts.Now(), st, p); next != nil {
		before := st.phase()
		if !st.plugged {
			if err := c.keepHandover(p, next.switchAt); err != nil {
				c.opts.Log.Error("the plugged-in certificate is not taken yet: when it signs cannot be noted", "error", err)
				return
			}
		}
		c.put(next)
		c.opts.Log.Info("the plugged-in certificate has changed", "phase", next.phase(), "was", before, "signs",
			nameOf(next.active.cert), "ends", next.active.cert.NotAfter, "roots", len(next.roots()), "revocationLists",
			len(next.crl), "due", c.due(next))
		c.warnOfLists(c.current())
	}
}

// warnOfLists logs why proxies do not get CRLs.
func (c *CA) warnOfLists(st *state) {
	if i := st.unlisted(); i != nil {
		c.opts.Log.Error(
			"the lists of revoked certificates are not given to proxies, which would refuse every certificate of an "+
				"issuer without a list; add its list to "+crlName+", or give it the key usage CRL Sign where the authority has its key",
			"without",
			nameOf(i),
		)
	}
}

// Reload reads the plugged-in files again, now. Run does so whenever they change.
func (c *CA) Reload() { c.reload() }

// adopted returns the state with the content of the files, or nil if that changes nothing. A certificate signs at once if all workloads
// already have its root. Otherwise it waits, as the next root, until they have.
func adopted(now time.Time, st *state, p *plugged) *state {
	n := *st
	n.crl, n.plugged = p.crl, true
	switch sameCRL := equalCRL(st.crl, p.crl); {
	case st.next != nil && st.next.same(p.signer), st.next == nil && st.active.same(p.signer):
		if sameCRL && st.plugged {
			return nil
		}
	case has(st.active.roots, p.signer.roots[0]) || hasRetired(st, p.signer.roots[0]):
		n.active, n.next, n.switchAt = p.signer, nil, time.Time{}
		n.retired = retire(st, p.signer, now.Add(st.longest))
	default:
		n.next, n.switchAt = p.signer, now.Add(st.longest)
	}
	return &n
}

func hasRetired(st *state, cert *x509.Certificate) bool {
	for _, r := range st.retired {
		if r.cert.Equal(cert) {
			return true
		}
	}
	return false
}

func equalCRL(a, b []*x509.RevocationList) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].Raw, b[i].Raw) {
			return false
		}
	}
	return true
}

// followed returns the files that Run watches: the plugged-in ones, under all their names, and the state files.
func (o Options) followed() []string {
	var out []string
	if o.Plugged != "" {
		for _, name := range slices.Concat(istioNames[:], tlsNames[:], []string{crlName}) {
			out = append(out, filepath.Join(o.Plugged, name))
		}
	}
	if o.State != "" && o.Shared == nil {
		out = append(out, filepath.Join(o.State, stateFile), filepath.Join(o.State, revokedFile))
	}
	return out
}
