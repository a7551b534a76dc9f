package service

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"fairway/internal/identity/ca"
	"fairway/internal/identity/safefile"
)

// Serving is how the control plane shows itself to agents: TLS 1.3, with a certificate of its own authority or one from
// files. Clients may show a certificate; whether it is good is authn's to say, in words that reach the agent.
type Serving struct {
	CA    *ca.CA
	Names []string // DNS names and IP addresses in a certificate of the authority's
	// CertFile and KeyFile hold a certificate to use in place of one of the authority's; they are read again when they change.
	CertFile, KeyFile string
	Now               func() time.Time
	Log               *slog.Logger

	mu     sync.Mutex
	cert   *tls.Certificate
	issuer string    // serial number of the authority's certificate that signed cert
	stamp  time.Time // of the files that cert was read from
}

// Config makes the certificate, so that what cannot work fails the start, and returns the configuration for a listener. While the root is
// not known, handshakes fail: callers could not be known either.
func (s *Serving) Config() (*tls.Config, error) {
	if _, err := s.certificate(); err != nil && !errors.Is(err, ca.ErrUnknown) {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.RequestClientCert,
		NextProtos:     []string{"h2"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate() },
		// A resumed session would carry the client's certificate of long ago.
		SessionTicketsDisabled: true,
	}, nil
}

func (s *Serving) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.CA != nil {
		if err := s.CA.Unknown(); err != nil {
			return nil, err
		}
	}
	if s.CertFile != "" {
		return s.fromFiles()
	}
	signs := s.CA.Status().Signs.Serial
	if s.cert != nil && s.issuer == signs && s.Now().Before(s.cert.Leaf.NotBefore.Add(s.cert.Leaf.NotAfter.Sub(s.cert.Leaf.NotBefore)/2)) {
		return s.cert, nil
	}
	cert, err := s.CA.ServerCertificate(s.Names)
	if err != nil {
		if s.cert != nil {
			s.Log.Error("the control plane's own certificate is not renewed; the one before stays", "ends", s.cert.Leaf.NotAfter,
				"error", err)
			return s.cert, nil
		}
		return nil, fmt.Errorf("the control plane's own certificate: %w", err)
	}
	s.cert, s.issuer = cert, signs
	return cert, nil
}

// longestFile bounds the files of the control plane's certificate and of its key, in bytes.
const longestFile = 1 << 20

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := safefile.Read(certFile, longestFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := safefile.Read(keyFile, longestFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// fromFiles reads the files if they have changed; if they are only half replaced, the old certificate stays.
func (s *Serving) fromFiles() (*tls.Certificate, error) {
	info, err := os.Stat(s.CertFile)
	if err == nil && s.cert != nil && info.ModTime().Equal(s.stamp) {
		return s.cert, nil
	}
	if err == nil {
		var cert tls.Certificate
		if cert, err = readPair(s.CertFile, s.KeyFile); err == nil {
			s.cert, s.stamp = &cert, info.ModTime()
			return s.cert, nil
		}
	}
	if s.cert != nil {
		s.Log.Error("the control plane's certificate files cannot be used; what they held before stays", "error", err)
		return s.cert, nil
	}
	return nil, fmt.Errorf("the control plane's certificate: --tlsCertFile %s, --tlsKeyFile %s: %w", s.CertFile, s.KeyFile, err)
}
