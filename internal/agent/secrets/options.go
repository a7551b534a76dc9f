package secrets

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"fairway/internal/agent/planes"
	"fairway/internal/agent/socket"
	"fairway/internal/agent/token"
	"fairway/internal/identity"
)

// The names of the workload's own certificate, and of the roots to trust, in Istio's configuration.
const (
	DefaultName = "default"
	RootName    = "ROOTCA"
)

// socketName is what errors call the socket.
const socketName = "the socket for secrets"

// Options define where secrets come from and where they are served. Exactly one of Authority, SPIRE and Files gives the workload's
// own certificate; with none of them only secrets from files that configuration names (file-cert:, file-root:) are served.
type Options struct {
	Socket string      // path of the unix socket; its folder is made if missing
	Token  token.Token // that Envoys show; empty: none is required
	// ID is the identity that the workload should have; a certificate for another one is refused. The zero ID accepts any.
	ID identity.ID
	// Expect is the identity that a certificate must have that an earlier agent kept (Authority.OutputDir), as far as its parts are
	// not empty: no authority is asked whether it is this workload's.
	Expect identity.ID
	Now    func() time.Time
	Log    *slog.Logger

	Authority *Authority
	SPIRE     string // address of the workload API: a path, or unix:///path
	Files     *Files

	SystemRoots string // file of the machine's own roots (file-root:system); empty: where systems have it
	CRL         string // file of revoked certificates, read again when it changes; it need not exist; empty: none
}

// Files are a certificate that another program provides.
type Files struct{ Chain, Key, Roots string }

// Authority is a server of istio.v1.auth.IstioCertificateService.
type Authority struct {
	Addresses  []string // host:port; if there are several, they are replicas, and one of them is asked
	ServerName string   // in its certificate; empty: the address's host, or istiod.istio-system.svc for an address of this machine
	Roots      string   // file of roots for its certificate, beside those that it sent; "SYSTEM": the machine's own
	Token      string   // file with a token; read for each request; empty: none
	// CertDir holds cert-chain.pem, key.pem and root-cert.pem to authenticate with before there is a certificate in
	// memory (PROV_CERT). Empty: none.
	CertDir string
	// OutputDir is where certificate, key and roots are written, under the same names, and CRLs, for those who need
	// them as files (OUTPUT_CERTS). An agent that starts while the authority is away reads them too. Empty: nowhere.
	OutputDir string
	ClusterID string
	TTL       time.Duration // requested; 0: the authority's default
	RSABits   int           // size of an RSA key; 0: an EC key (P-256)
	// Grace is the part of a certificate's life that is left when it is replaced; Jitter is how much that varies at random, so that
	// proxies that started together do not ask together. 0 and 0: one half, one tenth.
	Grace, Jitter float64
	Timeout       time.Duration // of one request; 0: ten seconds
}

// validate returns what cannot work.
func (o Options) validate() error {
	var errs []error
	sources := 0
	if o.Authority != nil {
		sources++
		errs = append(errs, o.Authority.validate())
	}
	if o.SPIRE != "" {
		sources++
	}
	if o.Files != nil {
		sources++
		if o.Files.Chain == "" || o.Files.Key == "" || o.Files.Roots == "" {
			errs = append(errs, errors.New("certificate files: want chain, key and roots"))
		}
	}
	if sources > 1 {
		errs = append(errs, errors.New("certificates from more than one of authority, SPIRE and files: choose one"))
	}
	if o.Now == nil || o.Log == nil {
		errs = append(errs, errors.New("want a clock and a log"))
	}
	return errors.Join(append(errs, socket.Check(socketName, o.Socket))...)
}

func (a *Authority) validate() error {
	if len(a.Addresses) == 0 || slices.Contains(a.Addresses, "") {
		return errors.New("the certificate authority has no address, or an empty one: name it with CA_ADDR")
	}
	if len(a.Addresses) > planes.Most {
		return fmt.Errorf("CA_ADDR: %d addresses of at most %d", len(a.Addresses), planes.Most)
	}
	if a.Grace < 0 || a.Grace >= 1 || a.Jitter < 0 || a.Jitter >= 1 {
		return fmt.Errorf("SECRET_GRACE_PERIOD_RATIO %v, SECRET_GRACE_PERIOD_RATIO_JITTER %v: want 0 to 1", a.Grace, a.Jitter)
	}
	if a.RSABits != 0 && (a.RSABits < 2048 || a.RSABits > 8192) {
		return fmt.Errorf("WORKLOAD_RSA_KEY_SIZE %d: want 2048 to 8192", a.RSABits)
	}
	return nil
}
