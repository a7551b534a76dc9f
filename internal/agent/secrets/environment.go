package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairway/internal/identity"
)

// The places where Istio's manifests mount things; relative to the working folder, which is / in a container.
const (
	wellKnownSocket      = "./var/run/secrets/workload-spiffe-uds"
	wellKnownSocketName  = "socket"
	wellKnownCredentials = "./var/run/secrets/workload-spiffe-credentials"
	wellKnownToken       = "./var/run/secrets/tokens/istio-token"
	wellKnownRoots       = "./var/run/secrets/istio/root-cert.pem"
	wellKnownCRL         = "./var/run/secrets/istio/crl/ca-crl.pem"
)

// Surroundings are what an agent knows when it decides where certificates come from.
type Surroundings struct {
	Vars      map[string]string // environment variables
	Socket    string            // where to serve
	Discovery []string          // host:port of each control plane; its host with port 15012 is the authority unless CA_ADDR names others
	Namespace string            // of the workload
	ClusterID string
	Log       *slog.Logger
}

// FromEnvironment reads Istio's variables. It takes the first source that exists: SPIRE's socket,
// certificate files, the authority. It returns nil if nothing asks for an identity of the
// workload: no socket, no files, no token, and none of CA_ADDR, PROV_CERT and FILE_MOUNTED_CERTS.
func FromEnvironment(around Surroundings) (*Options, error) {
	e := reader{vars: around.Vars}
	o := &Options{
		Socket:      around.Socket,
		Now:         time.Now,
		Log:         around.Log,
		ID:          e.identity(around.Namespace),
		SystemRoots: e.or("SSL_CERT_FILE", ""),
	}
	o.Expect = identity.ID{TrustDomain: e.or("TRUST_DOMAIN", ""), Namespace: around.Namespace, ServiceAccount: e.or("SERVICE_ACCOUNT", "")}
	if is(filepath.Dir(wellKnownCRL), fs.ModeDir) {
		o.CRL = wellKnownCRL
	}
	socket := filepath.Join(wellKnownSocket, e.or("WORKLOAD_IDENTITY_SOCKET_FILE", wellKnownSocketName))
	switch {
	case e.or("SPIFFE_ENDPOINT_SOCKET", "") != "": // SPIFFE Workload Endpoint, section 4
		o.SPIRE = e.vars["SPIFFE_ENDPOINT_SOCKET"]
	case is(socket, fs.ModeSocket):
		o.SPIRE = socket
	case is(filepath.Join(wellKnownCredentials, chainFile), 0):
		o.Files = filesIn(wellKnownCredentials)
	case e.yes("FILE_MOUNTED_CERTS"):
		o.Files = e.mounted()
	case e.wanted():
		o.Authority = e.authority(around)
	default:
		return nil, errors.Join(e.errs...)
	}
	return o, errors.Join(e.errs...)
}

func is(path string, kind fs.FileMode) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == kind
}

func filesIn(dir string) *Files {
	return &Files{Chain: filepath.Join(dir, chainFile), Key: filepath.Join(dir, keyFile), Roots: filepath.Join(dir, rootFile)}
}

// reader reads variables and gathers errors in them.
type reader struct {
	vars map[string]string
	errs []error
}

func (e *reader) or(name, otherwise string) string {
	if v := strings.TrimSpace(e.vars[name]); v != "" {
		return v
	}
	return otherwise
}

func (e *reader) wrong(name string, err error) {
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s=%q: %w", name, e.vars[name], err))
	}
}

func (e *reader) yes(name string) bool {
	v, err := strconv.ParseBool(e.or(name, "false"))
	e.wrong(name, err)
	return v
}

func (e *reader) number(name string) float64 {
	v, err := strconv.ParseFloat(e.or(name, "0"), 64)
	e.wrong(name, err)
	return v
}

// identity returns the identity that the workload should have, if all of it is configured.
func (e *reader) identity(namespace string) identity.ID {
	domain, account := e.or("TRUST_DOMAIN", ""), e.or("SERVICE_ACCOUNT", "")
	if domain == "" || account == "" || namespace == "" {
		return identity.ID{}
	}
	id, err := identity.New(domain, namespace, account)
	e.wrong("TRUST_DOMAIN", err)
	return id
}

// mounted returns the files that Istio's node metadata names.
func (e *reader) mounted() *Files {
	return &Files{
		Chain: e.or("ISTIO_META_TLS_CLIENT_CERT_CHAIN", "./etc/certs/"+chainFile),
		Key:   e.or("ISTIO_META_TLS_CLIENT_KEY", "./etc/certs/"+keyFile),
		Roots: e.or("ISTIO_META_TLS_CLIENT_ROOT_CERT", "./etc/certs/"+rootFile),
	}
}

// wanted reports whether there is a reason to ask an authority.
func (e *reader) wanted() bool {
	return e.or("CA_ADDR", "") != "" || e.or("PROV_CERT", "") != "" || is(e.token(), 0)
}

func (e *reader) token() string { return e.or("JWT_TOKEN_PATH", wellKnownToken) }

func (e *reader) authority(around Surroundings) *Authority {
	var addresses []string
	for _, host := range around.Discovery {
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			host = host[:i]
		}
		if at := host + ":15012"; !slices.Contains(addresses, at) {
			addresses = append(addresses, at)
		}
	}
	if named := e.or("CA_ADDR", ""); named != "" {
		addresses = nil
		for one := range strings.SplitSeq(named, ",") {
			addresses = append(addresses, strings.TrimSpace(one))
		}
	}
	ttl, err := time.ParseDuration(e.or("SECRET_TTL", "0s"))
	e.wrong("SECRET_TTL", err)
	a := &Authority{
		Addresses:  addresses,
		ServerName: e.or("ISTIOD_SAN", ""),
		Roots:      e.or("CA_ROOT_CA", wellKnownRoots),
		Token:      e.token(),
		CertDir:    e.or("PROV_CERT", ""),
		OutputDir:  e.or("OUTPUT_CERTS", ""),
		ClusterID:  around.ClusterID,
		TTL:        ttl,
		RSABits:    int(e.number("WORKLOAD_RSA_KEY_SIZE")),
		Grace:      e.number("SECRET_GRACE_PERIOD_RATIO"),
		Jitter:     e.number("SECRET_GRACE_PERIOD_RATIO_JITTER"),
	}
	switch {
	case a.Grace == 0 && a.Jitter != 0:
		a.Grace = defaultGrace
	case a.Grace != 0 && e.or("SECRET_GRACE_PERIOD_RATIO_JITTER", "") == "":
		a.Jitter = defaultJitter
	}
	if alg := e.or("ECC_SIGNATURE_ALGORITHM", ""); alg != "" && alg != "ECDSA" {
		e.wrong("ECC_SIGNATURE_ALGORITHM", errors.New("want ECDSA, or nothing"))
	} else if alg == "ECDSA" {
		a.RSABits = 0
	}
	return a
}
