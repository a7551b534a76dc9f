package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/disk"
	"fairway/internal/printable"
)

// Reach is how etcd is called.
type Reach struct {
	// URLs are those of the cluster's members: http://HOST:2379 or https://HOST:2379, all of one kind. Where one fails the others are
	// asked. At least one is wanted.
	URLs []string `json:"urls"`
	// CAFile holds the roots by which members are known; empty: the machine's.
	CAFile string `json:"caFile"`
	// CertFile and KeyFile are what is shown to members that ask for a certificate.
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// ServerName is a name in the members' certificates; empty: the URL's host.
	ServerName string `json:"serverName"`
	// InsecureSkipVerify takes any certificate for a member's.
	InsecureSkipVerify bool `json:"insecureSkipVerify"`
	// Username and PasswordFile are for a cluster whose authentication is on.
	Username     string `json:"username"`
	PasswordFile string `json:"passwordFile"`
	// MaxAnswer is how many bytes one answer may have; 64 MiB when 0, at least 4 MiB.
	MaxAnswer int64 `json:"maxAnswer"`
}

// Bounds and times of calls.
const (
	maxURLs       = 100
	maxCredential = 1 << 20 // bytes of a file
	defaultAnswer = 64 << 20
	leastAnswer   = 4 << 20 // a value is 1.5 MiB by etcd's defaults
	mostAnswer    = 1 << 30
	sendMost      = 8 << 20

	// Within is how long etcd may take to answer one question.
	Within = 10 * time.Second

	keepalive        = 10 * time.Second // what etcd allows by default is 5
	keepaliveTimeout = 5 * time.Second
)

// Validate says which field is wrong, and what would be right.
func (r Reach) Validate() error {
	if len(r.URLs) == 0 || len(r.URLs) > maxURLs {
		return fmt.Errorf("urls: want 1 to %d of them, as https://etcd-1:2379", maxURLs)
	}
	secure := 0
	for _, one := range r.URLs {
		u, err := url.Parse(one)
		shown := printable.Text(one, printable.Short)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Port() == "" ||
			u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("urls: %q: want https://HOST:PORT or http://HOST:PORT", shown)
		}
		if u.Scheme == "https" {
			secure++
		} else if r.Username != "" && !local(u.Hostname()) {
			return fmt.Errorf("urls: %s is asked in plaintext, where others could read the password: want https://", shown)
		}
	}
	switch tlsFiles := r.CAFile != "" || r.CertFile != "" || r.KeyFile != "" || r.ServerName != "" || r.InsecureSkipVerify; {
	case secure > 0 && secure < len(r.URLs):
		return errors.New("urls: want all of them to be https://, or all http://")
	case secure == 0 && tlsFiles:
		return errors.New("caFile, certFile, keyFile, serverName, insecureSkipVerify: they are for urls that are https://")
	case (r.CertFile == "") != (r.KeyFile == ""):
		return errors.New("certFile, keyFile: want both or neither")
	case (r.Username == "") != (r.PasswordFile == ""):
		return errors.New("username, passwordFile: want both or neither")
	case !printable.Is(r.Username, printable.Short):
		return errors.New("username: want one that can be printed")
	case r.MaxAnswer != 0 && (r.MaxAnswer < leastAnswer || r.MaxAnswer > mostAnswer):
		return fmt.Errorf("maxAnswer: want %d to %d bytes", leastAnswer, mostAnswer)
	}
	return nil
}

// local says whether a host can be none but this machine.
func local(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Answer is how many bytes one answer may have.
func (r Reach) Answer() int {
	if r.MaxAnswer == 0 {
		return defaultAnswer
	}
	return int(r.MaxAnswer)
}

// Files are those that Open reads: when one changes, a client has to be opened anew.
func (r Reach) Files() []string {
	var out []string
	for _, f := range []string{r.CAFile, r.CertFile, r.KeyFile, r.PasswordFile} {
		if f != "" {
			out = append(out, f)
		}
	}
	return out
}

// Open reads the files and returns a client, proven where there is a password. It asks for nothing else, so that a member that is away
// shows itself at the first question. Whoever calls it closes the client.
func (r Reach) Open(ctx context.Context) (*clientv3.Client, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints: r.URLs, Context: ctx, DialTimeout: Within,
		DialKeepAliveTime: keepalive, DialKeepAliveTimeout: keepaliveTimeout, PermitWithoutStream: true,
		MaxCallSendMsgSize: min(sendMost, r.Answer()), MaxCallRecvMsgSize: r.Answer(),
		MaxUnaryRetries: 2, Logger: zap.NewNop(),
	}
	if strings.HasPrefix(r.URLs[0], "https://") {
		config, err := r.tls()
		if err != nil {
			return nil, err
		}
		c.TLS = config
	}
	if r.Username != "" {
		password, err := disk.Stream(r.PasswordFile, maxCredential)
		if err != nil {
			return nil, fmt.Errorf("passwordFile: %w", err)
		}
		c.Username, c.Password = r.Username, strings.TrimRight(string(password), "\r\n")
		if c.Password == "" {
			return nil, fmt.Errorf("passwordFile: there is nothing in %s", printable.Text(r.PasswordFile, printable.Short))
		}
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, r.Explain(err, "")
	}
	return client, nil
}

func (r Reach) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: r.ServerName, InsecureSkipVerify: r.InsecureSkipVerify}
	if r.CAFile != "" {
		text, err := disk.Stream(r.CAFile, maxCredential)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("caFile: %s holds no certificate in PEM", printable.Text(r.CAFile, printable.Short))
		}
	}
	if r.CertFile != "" {
		chain, err := disk.Stream(r.CertFile, maxCredential)
		if err != nil {
			return nil, fmt.Errorf("certFile: %w", err)
		}
		key, err := disk.Stream(r.KeyFile, maxCredential)
		if err != nil {
			return nil, fmt.Errorf("keyFile: %w", err)
		}
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("certFile, keyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Name is the members that are asked, fit to be shown.
func (r Reach) Name() string {
	const most = 3
	names := r.URLs
	if len(names) > most {
		names = names[:most]
	}
	text := printable.Text(strings.Join(names, ", "), printable.Long)
	if len(r.URLs) > most {
		text += " and others"
	}
	return "etcd at " + text
}

// Explain says what an error of a call means to whoever has to do something about it. root is what was asked for; empty: nothing yet.
// The error stays what it was to errors.Is.
func (r Reach) Explain(err error, root string) error {
	if err == nil {
		return nil
	}
	return explained{r.Name() + ": " + r.words(err, root), err}
}

type explained struct {
	text string
	error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.error }

func (r Reach) words(err error, root string) string {
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	text = strings.TrimPrefix(text, "etcdserver: ")
	is := func(known error) bool {
		return errors.Is(rpctypes.Error(err), known) || strings.Contains(err.Error(), known.Error())
	}
	_, dial := errors.AsType[*net.OpError](err)
	switch {
	case is(rpctypes.ErrAuthFailed):
		return "it refuses user " + r.Username + " or the password in " + r.PasswordFile
	case is(rpctypes.ErrPermissionDenied) && r.Username == "", is(rpctypes.ErrUserEmpty):
		return "it wants a user and a password: give username and passwordFile"
	case is(rpctypes.ErrPermissionDenied):
		return fmt.Sprintf("user %s may not have %s: grant a role of the user's: "+
			"etcdctl role grant-permission ROLE read --prefix=true %s", r.Username, root, root)
	case is(rpctypes.ErrInvalidAuthToken), is(rpctypes.ErrAuthOldRevision):
		return "it does not know the token that it gave any more"
	case is(rpctypes.ErrNoLeader):
		return "its members have no leader: most of them are away"
	case status.Code(err) == codes.ResourceExhausted && strings.Contains(text, "larger than max"):
		return fmt.Sprintf("its answer is larger than maxAnswer, %d bytes", r.Answer())
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return "it does not answer: " + printable.Text(text, printable.Long)
	case dial, status.Code(err) == codes.Unavailable:
		return "it cannot be reached: " + printable.Text(text, printable.Long)
	}
	return printable.Text(text, printable.Long)
}
