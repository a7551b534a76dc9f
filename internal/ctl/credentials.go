package ctl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	grpccredentials "google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"fairway/internal/disk"
	"fairway/internal/identity"
)

// credentials are the credentials of pilotctl's user, and the roots that verify the control plane.
type credentials struct {
	token          string // file; "-": standard input
	cert, key      string // files
	roots          string // file; empty: the machine's roots
	serverName     string // in the control plane's certificate; empty: the address's host
	stdin          io.Reader
	mostTokenBytes int64
}

func (c *credentials) bind(flags *pflag.FlagSet) {
	c.stdin, c.mostTokenBytes = os.Stdin, 64<<10
	for _, name := range []string{"token", "token-file"} {
		flags.StringVar(&c.token, name, "", "file with a token to show, as one of a service account; -: standard input")
	}
	flags.StringVar(&c.cert, "cert", "", "file with a certificate chain of this mesh to show")
	flags.StringVar(&c.key, "key", "", "file with the private key of --cert")
	flags.StringVar(&c.roots, "cacert", "", "file with the roots that verify the control plane (default: the machine's)")
	flags.StringVar(&c.serverName, "server-name", "",
		"name in the control plane's certificate, as istiod.istio-system.svc (default: the host of --address)")
}

func (c *credentials) overTLS() bool {
	return c.cert != "" || c.key != "" || c.roots != "" || c.serverName != ""
}

// client returns a client of address, over TLS if the address or the credentials ask for it. A token is not sent in plaintext to another
// machine.
func (c *credentials) client(address string) (*client, error) {
	secure := strings.HasPrefix(address, "https://")
	if !secure && c.overTLS() {
		if strings.HasPrefix(address, "http://") {
			return nil, errors.New("--address http://…: --cert, --key, --cacert and --server-name are for https://")
		}
		secure = true
	}
	out := newClient(strings.TrimPrefix(address, "https://"))
	token, err := c.readToken()
	if err != nil {
		return nil, err
	}
	out.token = token
	if secure {
		return out, c.secure(out)
	}
	host, _, err := net.SplitHostPort(out.address)
	if err != nil {
		host = out.address
	}
	if token != "" && !identity.OnThisMachine(host) {
		return nil, fmt.Errorf(
			"--token: %s is asked in plaintext, where others could read the token; give --address https://HOST:15017 and --cacert FILE",
			out.address)
	}
	return out, nil
}

func (c *credentials) readToken() (string, error) {
	if c.token == "" {
		return "", nil
	}
	from := c.stdin
	if c.token != "-" {
		f, err := os.Open(c.token)
		if err != nil {
			return "", fmt.Errorf("--token: %w; want a file that holds the token, or - for standard input", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, c.mostTokenBytes+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("--token: %w", err)
	case token == "":
		return "", errors.New("--token: there is nothing in it")
	case int64(len(text)) > c.mostTokenBytes || strings.ContainsAny(token, " \t\r\n"):
		return "", errors.New("--token: this is not a token: want one word of at most 64 KiB")
	}
	return token, nil
}

// longestPEM bounds a file of certificates or of a key that a person names, in bytes; it may be a pipe.
const longestPEM = 16 << 20

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := disk.Stream(certFile, longestPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := disk.Stream(keyFile, longestPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// tls reads the files for TLS.
func (c *credentials) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: c.serverName}
	if (c.cert == "") != (c.key == "") {
		return nil, errors.New("--cert and --key: want both or neither")
	}
	if c.cert != "" {
		pair, err := readPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.roots != "" {
		text, err := disk.Stream(c.roots, longestPEM)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cacert: %s holds no certificate in PEM", c.roots)
		}
	}
	return config, nil
}

// dial connects to where a control plane serves xDS: over TLS if the flags name files for it.
func (c *credentials) dial(address string) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if c.overTLS() {
		config, err := c.tls()
		if err != nil {
			return nil, err
		}
		transport = grpccredentials.NewTLS(config)
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(transport))
}

// secure configures a client for TLS.
func (c *credentials) secure(to *client) error {
	config, err := c.tls()
	if err != nil {
		return err
	}
	to.scheme = "https"
	to.http.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
	return nil
}
