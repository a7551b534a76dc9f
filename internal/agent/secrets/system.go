package secrets

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"

	"fairway/internal/identity/safefile"
)

// systemName is the name of the machine's own roots among the files that configuration names; Istio's control plane writes it so too.
const systemName = "system"

// systemFiles are where systems keep the public authorities: Debian, Ubuntu, Alpine, Arch and distroless; Fedora and RHEL;
// openSUSE; RHEL 7; BSD and macOS.
var systemFiles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// systemFile returns the machine's bundle of roots: the file that the user names (SSL_CERT_FILE), else the first that exists.
func (o Options) systemFile() (string, error) {
	if o.SystemRoots != "" {
		return o.SystemRoots, nil
	}
	for _, f := range systemFiles {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			return f, nil
		}
	}
	return "", fmt.Errorf(
		"this machine's own roots are in none of %s: install the package ca-certificates, or name a file with SSL_CERT_FILE",
		strings.Join(systemFiles[:], ", "))
}

// loadSystem reads the machine's own roots. Roots that cannot be read are left out, because the user did not choose them one by one.
func (s *Secrets) loadSystem(name string) (resource, error) {
	file, err := s.opts.systemFile()
	if err != nil {
		return resource{}, err
	}
	text, err := safefile.Read(file, longestFile)
	if err != nil {
		return resource{}, fmt.Errorf("this machine's own roots: %w", err)
	}
	t := &trusted{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || slices.ContainsFunc(t.certs, c.Equal) {
			continue
		}
		t.certs = append(t.certs, c)
		t.roots = append(t.roots, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if len(t.certs) == 0 {
		return resource{}, fmt.Errorf("this machine's own roots: %s holds no certificate in PEM", file)
	}
	s.mu.Lock()
	s.describeRoots(name, t)
	s.mu.Unlock()
	return rootResource(name, t)
}
