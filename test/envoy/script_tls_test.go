package envoy

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"fairway/test/envoy/live"
)

// certified is the authorities and certificates of a script.
type certified struct {
	authorities map[string]*live.Authority
	revoked     map[string]string // files of authorities, with their revoked certificates
	pairs       map[string]live.Pair
}

func newCertified() certified {
	return certified{map[string]*live.Authority{}, map[string]string{}, map[string]live.Pair{}}
}

// word returns the value of ${ca:NAME} and ${crl:NAME}, and of ${cert:NAME}, ${key:NAME}, ${hash:NAME} and ${spki:NAME}.
func (c certified) word(kind, name string) (string, bool) {
	if a := c.authorities[name]; kind == "ca" && a != nil {
		return a.File, true
	}
	if kind == "crl" {
		file, ok := c.revoked[name]
		return file, ok
	}
	p, ok := c.pairs[name]
	switch {
	case !ok:
	case kind == "cert":
		return p.CertFile, true
	case kind == "key":
		return p.KeyFile, true
	case kind == "hash":
		sum := sha256.Sum256(p.Leaf.Raw)
		return hex.EncodeToString(sum[:]), true
	case kind == "spki":
		sum := sha256.Sum256(p.Leaf.RawSubjectPublicKeyInfo)
		return base64.StdEncoding.EncodeToString(sum[:]), true
	}
	return "", false
}

func (s *script) authority(t testing.TB, names []string) error {
	for _, name := range names {
		s.certified.authorities[name] = s.m.Authority(t, name)
	}
	return nil
}

func (s *script) certificate(t testing.TB, args []string) error {
	a, err := s.certified.authority(args[1])
	switch {
	case err != nil:
		return err
	case len(args) == 3:
		s.certified.pairs[args[0]] = a.Issue(t, args[2])
	case args[3] == "rsa":
		s.certified.pairs[args[0]] = a.IssueRSA(t, args[2])
	default:
		return fmt.Errorf("no kind of key: %q", args[3])
	}
	return nil
}

func (s *script) revoke(t testing.TB, args []string) error {
	a, err := s.certified.authority(args[0])
	if err != nil {
		return err
	}
	var pairs []live.Pair
	for _, name := range args[1:] {
		p, err := s.certified.pair(name)
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	s.certified.revoked[args[0]] = a.Revoke(t, pairs...)
	return nil
}

// secret is written as "NAME CERTIFICATE [AUTHORITY [revoked]]"; "-" is no certificate.
func (s *script) secret(t testing.TB, args []string) (err error) {
	var pair live.Pair
	if args[1] != "-" {
		if pair, err = s.certified.pair(args[1]); err != nil {
			return err
		}
	}
	var files []string
	if len(args) > 2 {
		a, err := s.certified.authority(args[2])
		if err != nil {
			return err
		}
		files = append(files, a.File)
	}
	if len(args) > 3 {
		list, ok := s.certified.revoked[args[2]]
		if !ok || args[3] != "revoked" {
			return fmt.Errorf("no list of what %s took back, or no word of a secret: %q", args[2], args[3])
		}
		files = append(files, list)
	}
	s.m.Apply(t, live.Secret(t, args[0], pair, files...))
	return nil
}

func (s *script) configMap(t testing.TB, args []string) error {
	a, err := s.certified.authority(args[1])
	if err == nil {
		s.m.Apply(t, live.ConfigMap(t, args[0], a.File))
	}
	return err
}

// server returns the TLS configuration for "CERTIFICATE [AUTHORITY]": with an authority clients have to show a certificate of it.
func (c certified) server(args []string) (*tls.Config, error) {
	pair, err := c.pair(args[0])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair.Certificate}}
	if len(args) > 1 {
		a, err := c.authority(args[1])
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool
	}
	return config, nil
}

func (s *script) secure(t testing.TB, args []string) error {
	config, err := s.certified.server(args[1:])
	if err == nil {
		s.backends[args[0]] = s.m.SecureBackend(t, args[0], config)
	}
	return err
}

func (s *script) localSecure(t testing.TB, args []string) error {
	config, err := s.certified.server(args[1:])
	if err == nil {
		s.ports[args[0]] = s.m.SecureBackendOnLocalhost(t, args[0], config)
	}
	return err
}

func (s *script) tlsServer(t testing.TB, args []string) error {
	config, err := s.certified.server(args[1:])
	if err == nil {
		s.m.TLSBackend(t, args[0], 9443, config)
	}
	return err
}

func (c certified) authority(name string) (*live.Authority, error) {
	if a := c.authorities[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("the script has no authority %q", name)
}

func (c certified) pair(name string) (live.Pair, error) {
	if p, ok := c.pairs[name]; ok {
		return p, nil
	}
	return live.Pair{}, fmt.Errorf("the script has no certificate %q", name)
}

// client takes a word of a request about its TLS, "sni=a.test" and the like, into the configuration; known is false for other words.
func (c certified) client(config *tls.Config, name, value string) (known bool, err error) {
	switch name {
	case "sni":
		config.ServerName = value
	case "trust":
		a, err := c.authority(value)
		if err != nil {
			return true, err
		}
		config.RootCAs, config.InsecureSkipVerify = a.Pool, false
	case "cert":
		p, err := c.pair(value)
		if err != nil {
			return true, err
		}
		// This certificate is shown for any authorities that the server names: Go's clients keep back a certificate that does not fit.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &p.Certificate, nil }
	case "tls":
		version, ok := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[value]
		if !ok {
			return true, fmt.Errorf("no version of TLS: %q", value)
		}
		config.MinVersion, config.MaxVersion = version, version
	case "cipher":
		for _, suite := range tls.CipherSuites() {
			if suite.Name == value {
				config.CipherSuites = append(config.CipherSuites, suite.ID)
				return true, nil
			}
		}
		return true, fmt.Errorf("no cipher suite: %q", value)
	case "curve":
		curve, ok := map[string]tls.CurveID{"P-256": tls.CurveP256, "P-384": tls.CurveP384, "X25519": tls.X25519}[value]
		if !ok {
			return true, fmt.Errorf("no curve: %q", value)
		}
		config.CurvePreferences = append(config.CurvePreferences, curve)
	default:
		return false, nil
	}
	return true, nil
}

// shown returns a part of a reply's TLS: the version for the word "tls", otherwise the common name of the server's certificate.
func shown(state *tls.ConnectionState, word string) string {
	if state == nil {
		return ""
	}
	if word == "tls" {
		return strings.TrimPrefix(tls.VersionName(state.Version), "TLS ")
	}
	return commonName(state.PeerCertificates)
}

func commonName(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return ""
	}
	return chain[0].Subject.CommonName
}
