package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Bounds of MeshConfig.caCertificates.
const (
	mostRoots    = 64      // entries
	mostRootText = 1 << 20 // bytes of all
)

// RootsOf returns, in PEM, the authorities' certificates that workloads trust in addition to the mesh's own, and their CRLs: the entries of
// MeshConfig.caCertificates for one of these trust domains, or for no particular one, each block once. SignerRoots returns those for
// signers of Kubernetes.
func RootsOf(spec *meshconfig.MeshConfig, domains []string) (out []string, bad []Unmet) {
	own := func(domain string) bool { return slices.Contains(domains, domain) }
	size := 0
	for i, c := range spec.GetCaCertificates() {
		field := fmt.Sprintf("caCertificates[%d]", i)
		refuse := func(of, why, instead string) { bad = append(bad, Unmet{Field: field + of, Why: why, Instead: instead}) }
		size += len(c.GetPem())
		switch {
		case i >= mostRoots || size > mostRootText:
			refuse("", fmt.Sprintf("workloads get at most %d entries of %d bytes together", mostRoots, mostRootText), "write fewer")
			return out, bad
		case len(c.GetCertSigners()) > 0:
			continue
		case c.GetSpiffeBundleUrl() != "":
			refuse(".spiffeBundleUrl", "bundles are not fetched yet: the entry is not used", "write the bundle's certificates as pem")
			continue
		case len(c.GetTrustDomains()) > 0 && !slices.ContainsFunc(c.GetTrustDomains(), own):
			refuse(".trustDomains", "the mesh's own trust domain and its aliases are not among them: proxies hold all roots for names of "+
				"every trust domain, so the entry is not used", "leave it out to trust the authority for every trust domain")
			continue
		}
		blocks, err := rootBlocks(c.GetPem())
		if err != nil {
			refuse(".pem", err.Error()+": the entry is not used", "write certificates of authorities in PEM")
			continue
		}
		for _, b := range blocks {
			if !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out, bad
}

// rootBlocks reads certificates of authorities and CRLs.
func rootBlocks(text string) (out []string, err error) {
	rest := []byte(text)
	for strings.TrimSpace(string(rest)) != "" {
		block, after := pem.Decode(rest)
		if block == nil {
			return nil, errors.New("it contains text that is not PEM")
		}
		switch block.Type {
		case "CERTIFICATE":
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, err
			}
			if !c.IsCA {
				return nil, fmt.Errorf("the certificate of %q is not an authority's", c.Subject.CommonName)
			}
		case "X509 CRL":
			if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("it holds a %s", block.Type)
		}
		out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
		rest = after
	}
	if len(out) == 0 {
		return nil, errors.New("it is empty")
	}
	return out, nil
}
