package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// BundleName is the name of the only resource with which a control plane sends agents the roots that workloads trust. Its type is one that
// Istio's agents ask for too: ProxyConfig.ca_certificates_pem.
const BundleName = "trust-bundle"

// The kinds of PEM blocks in a bundle.
const (
	certificateBlock = "CERTIFICATE"
	listBlock        = "X509 CRL"
)

// EncodeBundle makes the resource of a text with certificates and CRLs; equal texts have equal bytes.
func EncodeBundle(text []byte) ([]byte, error) {
	var c meshconfig.ProxyConfig
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certificateBlock || block.Type == listBlock {
			c.CaCertificatesPem = append(c.CaCertificatesPem, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
		}
	}
	if len(c.CaCertificatesPem) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&c)
}

// DecodeBundle reads what EncodeBundle wrote: certificates and CRLs in PEM. All must be readable, and at least one must be a certificate.
func DecodeBundle(body []byte) ([]byte, error) {
	var c meshconfig.ProxyConfig
	if err := proto.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("the bundle of roots: %w", err)
	}
	var out bytes.Buffer
	for i, text := range c.GetCaCertificatesPem() {
		if err := checkBlocks(text); err != nil {
			return nil, fmt.Errorf("the bundle of roots: ca_certificates_pem[%d]: %w", i, err)
		}
		out.WriteString(strings.TrimSpace(text) + "\n")
	}
	if _, err := Certificates(out.Bytes()); err != nil {
		return nil, fmt.Errorf("the bundle of roots: %w", err)
	}
	return out.Bytes(), nil
}

// checkBlocks parses each block of an entry, and returns an error unless all are certificates or CRLs: half an entry must not pass for a
// whole one.
func checkBlocks(text string) error {
	rest := []byte(text)
	for len(bytes.TrimSpace(rest)) > 0 {
		block, after := pem.Decode(rest)
		if block == nil {
			return errors.New("no PEM")
		}
		var err error
		switch block.Type {
		case certificateBlock:
			_, err = x509.ParseCertificate(block.Bytes)
		case listBlock:
			_, err = x509.ParseRevocationList(block.Bytes)
		default:
			err = fmt.Errorf("block %s: want %s or %s", block.Type, certificateBlock, listBlock)
		}
		if err != nil {
			return err
		}
		rest = after
	}
	return nil
}
