package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"fairway/internal/identity/ca"
)

// ownAccount is the service account that the control plane is, as in a cluster.
const ownAccount = "istiod"

// Own makes a certificate for the control plane's own calls, and returns it with the roots of the mesh. The certificate has the
// default lifetime; callers that need one for longer call Own again.
func (s *Server) Own() (*tls.Certificate, *x509.CertPool, error) {
	if s == nil || s.ca == nil {
		return nil, nil, errors.New("there is no certificate of the mesh to show: it needs --secureGRPCAddr and the own authority")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	signed, err := s.ca.Sign(&x509.CertificateRequest{PublicKey: key.Public()}, ca.Grant{ID: s.own})
	if err != nil {
		return nil, nil, err
	}
	out := &tls.Certificate{PrivateKey: key, Leaf: signed.Leaf}
	for block, rest := pem.Decode(signed.Chain); block != nil; block, rest = pem.Decode(rest) {
		out.Certificate = append(out.Certificate, block.Bytes)
	}
	return out, s.ca.Pool(), nil
}
