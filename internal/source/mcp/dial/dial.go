// Package dial connects to other control planes over gRPC: with TLS by files that are read anew for each connection, a token from a file,
// keepalive, and answers of bounded size.
package dial

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/weigh"
)

// Options say which server to call, and how.
type Options struct {
	Address string `json:"address"` // host:port
	// Plaintext connects without TLS. No token is shown then.
	Plaintext bool `json:"plaintext,omitempty"`
	// Files of TLS, read anew for each connection: certificates of authorities that the server is believed by (empty: the machine's), and
	// the own certificate and key.
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// ServerName is asked for, and is the one that the server's certificate has; empty: the address's host.
	ServerName string `json:"serverName,omitempty"`
	// SubjectAltNames are names (DNS or SPIFFE). The server's certificate must have one of them, instead of ServerName.
	SubjectAltNames []string `json:"subjectAltNames,omitempty"`
	// InsecureSkipVerify accepts any server.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
	// TokenFile holds the token that the server is shown, and is read anew for each stream.
	TokenFile string `json:"tokenFile,omitempty"`
	// MaxAnswer is how many MiB a message may have; 0: 64.
	MaxAnswer int `json:"maxAnswerMiB,omitempty"`
	// Ping is how long the server may be silent before it is asked whether it is there; 0: 30 s.
	Ping time.Duration `json:"-"`
	// Shown, if not nil, gets the token that the server is shown, so that it can be kept out of logs.
	Shown *printable.Secrets `json:"-"`
	// Mesh gives the own certificate and the mesh's roots, if the program has them; CertFile and CAFile are not used then.
	Mesh func() (*tls.Certificate, *x509.CertPool, error) `json:"-"`
}

// DefaultPing is how long a server may be silent before it is asked whether it is there.
const DefaultPing = 30 * time.Second

const (
	defaultAnswer = 64 // MiB
	mostAnswer    = 2047
	mostNames     = 64
)

// Validate returns every mistake as an error.
func (o Options) Validate() error {
	var errs []error
	host, port, err := net.SplitHostPort(o.Address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		errs = append(errs, fmt.Errorf("address: %q is not where a server is; want host:port", printable.Text(o.Address, printable.Short)))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("certFile, keyFile: one of them alone does nothing; give both, or neither"))
	}
	if o.Plaintext && (o.CAFile != "" || o.CertFile != "" || o.TokenFile != "" || o.ServerName != "" || len(o.SubjectAltNames) > 0) {
		errs = append(errs, errors.New("plaintext: files, names and tokens are for TLS; leave it out, or them"))
	}
	if len(o.SubjectAltNames) > mostNames {
		errs = append(errs, fmt.Errorf("subjectAltNames: %d are too many; want at most %d", len(o.SubjectAltNames), mostNames))
	}
	if o.MaxAnswer < 0 || o.MaxAnswer > mostAnswer {
		errs = append(errs, fmt.Errorf("maxAnswerMiB: %d; want 1 to %d", o.MaxAnswer, mostAnswer))
	}
	return errors.Join(errs...)
}

// Dial makes a connection, which is opened by its first call. The caller closes it. Files are read anew for each connection.
func (o Options) Dial() (*grpc.ClientConn, error) {
	shown := insecure.NewCredentials()
	if !o.Plaintext {
		config, err := o.tls()
		if err != nil {
			return nil, err
		}
		shown = credentials.NewTLS(config)
	}
	if o.Ping == 0 {
		o.Ping = DefaultPing
	}
	most := o.MaxAnswer
	if most == 0 {
		most = defaultAnswer
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(shown),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: o.Ping, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most<<20), grpc.ForceCodecV2(weigh.Codec())),
		grpc.WithMaxHeaderListSize(64 << 10),
		grpc.WithDisableServiceConfig(),
	}
	if o.TokenFile != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(token{servers.Reach{TokenFile: o.TokenFile}, o.Shown}))
	}
	return grpc.NewClient("passthrough:///"+o.Address, opts...)
}

// tls returns the TLS configuration of the client, by the present files.
func (o Options) tls() (*tls.Config, error) {
	host, _, _ := net.SplitHostPort(o.Address)
	config, err := servers.Reach{
		CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, ServerName: o.ServerName, InsecureSkipVerify: o.InsecureSkipVerify,
	}.TLS(host)
	if err != nil {
		return nil, err
	}
	if o.Mesh != nil {
		own, roots, err := o.Mesh()
		if err != nil {
			return nil, err
		}
		config.Certificates, config.RootCAs = []tls.Certificate{*own}, roots
	}
	if len(o.SubjectAltNames) > 0 && !o.InsecureSkipVerify {
		config.InsecureSkipVerify = true // the chain and the names are looked at below
		roots, names := config.RootCAs, o.SubjectAltNames
		config.VerifyConnection = func(s tls.ConnectionState) error { return verify(s, roots, names) }
	}
	return config, nil
}

// verify checks a server's certificate against the authorities. The certificate must have one of the names.
func verify(s tls.ConnectionState, roots *x509.CertPool, names []string) error {
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	leaf := s.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err
	}
	for _, uri := range leaf.URIs {
		if slices.Contains(names, uri.String()) {
			return nil
		}
	}
	for _, name := range names {
		if leaf.VerifyHostname(name) == nil {
			return nil
		}
	}
	return fmt.Errorf("the server's certificate has none of the names %q (subjectAltNames)", names)
}

// token shows what a file holds now.
type token struct {
	reach servers.Reach
	shown *printable.Secrets
}

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := t.reach.Token()
	if err != nil {
		return nil, err
	}
	if t.shown != nil {
		t.shown.Add(text)
	}
	return map[string]string{"authorization": "Bearer " + text}, nil
}

func (token) RequireTransportSecurity() bool { return true }
