package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"fairway/internal/disk"
	"fairway/internal/printable"
)

// Reach describes how to call a registry's servers. It is a part of each registry's options.
type Reach struct {
	// URLs are those of its servers, in order: if one fails, the next one is called.
	URLs []string `json:"urls,omitempty"`
	// Files of TLS, read anew for each connection: certificates of the authorities that verify servers (empty: the machine's), and the own
	// certificate and key.
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// ServerName is the name in the servers' certificates; empty: the URL's.
	ServerName string `json:"serverName,omitempty"`
	// InsecureSkipVerify accepts any server.
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
	// TokenFile holds the token for the servers, and is read anew for each request.
	TokenFile string `json:"tokenFile,omitempty"`
	// Username and the password in PasswordFile are sent by basic authentication.
	Username     string `json:"username,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	// MaxAnswer is how many MiB an answer may have; 0: 256.
	MaxAnswer int64 `json:"maxAnswerMiB,omitempty"`
}

const (
	defaultAnswer = 256 // MiB
	mostURLs      = 32
	secretBytes   = 64 << 10 // of a file that holds a token or a password
	unread        = 64 << 10 // bytes of an answer over HTTP/2 that wait for their reader; there may be thousands of answers
)

// Validate returns every mistake.
func (r Reach) Validate() error {
	var errs []error
	if len(r.URLs) == 0 {
		errs = append(errs, errors.New("urls: there is none; want at least one as https://host:port"))
	}
	if len(r.URLs) > mostURLs {
		errs = append(errs, fmt.Errorf("urls: %d are too many; want at most %d", len(r.URLs), mostURLs))
	}
	for i, text := range r.URLs {
		if err := checkURL(text); err != nil {
			errs = append(errs, fmt.Errorf("urls[%d]: %w", i, err))
		}
	}
	if (r.CertFile == "") != (r.KeyFile == "") {
		errs = append(errs, errors.New("certFile, keyFile: one of them alone does nothing; give both, or neither"))
	}
	if r.Username == "" && r.PasswordFile != "" {
		errs = append(errs, errors.New("passwordFile: there is no username"))
	}
	if r.TokenFile != "" && r.Username != "" {
		errs = append(errs, errors.New("tokenFile, username: both use the same header; give one of them"))
	}
	if r.MaxAnswer < 0 || r.MaxAnswer > 16<<10 {
		errs = append(errs, fmt.Errorf("maxAnswerMiB: %d; want 1 to 16384", r.MaxAnswer))
	}
	return errors.Join(errs...)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it is not a URL; want https://host:port")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("%q is not a URL of a server; want https://host:port", printable.Text(u.Redacted(), printable.Short))
	case u.User != nil:
		return errors.New("it has a password in it; want username and passwordFile")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q: want no query in it", printable.Text(u.Redacted(), printable.Short))
	}
	return nil
}

// Calls are the settings of a source's requests. Client uses them.
type Calls struct {
	Header      time.Duration // bounds the time until an answer begins; a request that waits for a change needs more
	Connections int           // at once, to one server; 0: 16
	Idle        time.Duration // an answer is given up after this time without a byte; 0: 30 s
	HTTP2       bool          // over TLS, if the server supports it: many requests wait on one connection
	// Token puts the token in a request; nil: as a bearer's.
	Token func(h http.Header, token string)
	// Secrets gets the credentials that are sent to servers, so that no text of theirs shows these to others; nil: not used.
	Secrets *printable.Secrets
}

// Client returns a client that calls the servers: answers are bounded in bytes and time, redirects to another host are not followed, and
// new content of the files counts from the next connection or request. The caller ends it by Close.
func (r Reach) Client(c Calls) *http.Client {
	opened := &opened{dialer: net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}}
	connections := c.Connections
	if connections <= 0 {
		connections = 16
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: opened.dial,
		MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: 90 * time.Second,
		ResponseHeaderTimeout: c.Header, TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		config, err := r.TLS(host)
		if err != nil {
			return nil, err
		}
		if c.HTTP2 {
			config.NextProtos = []string{"h2", "http/1.1"}
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		conn, err := opened.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
	if c.HTTP2 {
		transport.ForceAttemptHTTP2 = true
		transport.HTTP2 = &http.HTTP2Config{
			SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second, MaxReceiveBufferPerStream: unread,
		}
	}
	most := r.MaxAnswer
	if most == 0 {
		most = defaultAnswer
	}
	idle := c.Idle
	if idle <= 0 {
		idle = 30 * time.Second
	}
	return &http.Client{
		Transport: caller{r, c.Token, transport, most << 20, idle, c.Secrets, opened},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > 3 || to.URL.Host != via[0].URL.Host || to.URL.Scheme != via[0].URL.Scheme {
				return fmt.Errorf("it sends to %s, and is not followed there",
					printable.Text(server(to.URL.Scheme, to.URL.Host), printable.Short))
			}
			return nil
		},
	}
}

// Close ends a client that Client made, with all of its connections. If a request was just given up, its connection does not count as idle
// yet, so CloseIdleConnections alone would leave it open.
func Close(c *http.Client) {
	c.CloseIdleConnections()
	if of, is := c.Transport.(caller); is {
		of.opened.end()
	}
}

// opened holds the connections that are not closed yet.
type opened struct {
	dialer net.Dialer

	mu    sync.Mutex
	conns map[*conn]struct{}
	ended bool
}

type conn struct {
	net.Conn
	of *opened
}

func (o *opened) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := o.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		to.Close()
		return nil, net.ErrClosed
	}
	if o.conns == nil {
		o.conns = map[*conn]struct{}{}
	}
	c := &conn{to, o}
	o.conns[c] = struct{}{}
	return c, nil
}

func (o *opened) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for c := range o.conns {
		c.Conn.Close()
	}
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.conns, c)
	return c.Conn.Close()
}

// TLS returns the TLS configuration for a server, from the current content of the files.
func (r Reach) TLS(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	config.InsecureSkipVerify = r.InsecureSkipVerify //nolint:gosec // for who asks for it
	if r.ServerName != "" {
		config.ServerName = r.ServerName
	}
	if r.CAFile != "" {
		pem, _, err := disk.Read(disk.OS, r.CAFile, disk.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("caFile: %s holds no certificate", r.CAFile)
		}
	}
	if r.CertFile != "" {
		own, err := tls.LoadX509KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certFile, keyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Token returns the content of TokenFile; empty: there is none.
func (r Reach) Token() (string, error) { return secret("tokenFile", r.TokenFile) }

// Password returns the content of PasswordFile; empty: there is none.
func (r Reach) Password() (string, error) { return secret("passwordFile", r.PasswordFile) }

func secret(field, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	content, _, err := disk.Read(disk.OS, path, secretBytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	text := strings.TrimSpace(string(content))
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("%s: %s holds no line of text", field, path)
	}
	return text, nil
}

// caller sends requests as Reach says.
type caller struct {
	reach Reach
	token func(http.Header, string)
	next  *http.Transport
	most  int64
	idle  time.Duration

	secrets *printable.Secrets
	*opened
}

func (c caller) CloseIdleConnections() { c.next.CloseIdleConnections() }

func (c caller) prove(q *http.Request) error {
	token, err := c.reach.Token()
	if err != nil {
		return err
	}
	switch {
	case token != "" && c.token != nil:
		c.token(q.Header, token)
	case token != "":
		q.Header.Set("Authorization", "Bearer "+token)
	case c.reach.Username != "":
		password, err := c.reach.Password()
		if err != nil {
			return err
		}
		q.SetBasicAuth(c.reach.Username, password)
	}
	if c.secrets != nil {
		c.secrets.Add(token)
		c.secrets.Add(q.Header.Get("Authorization"))
	}
	return nil
}

// Retry is the back-off before another try: it doubles from Base to Max, and is shortened by a random part, so that many clients do not
// come back at once.
type Retry struct{ Base, Max time.Duration }

// DefaultRetry is the back-off of sources.
var DefaultRetry = Retry{200 * time.Millisecond, 15 * time.Second}

// After returns the wait after so many failures in a row, counted from 1.
func (r Retry) After(fails int) time.Duration {
	d := r.Base << min(max(fails-1, 0), 20)
	if d > r.Max || d <= 0 {
		d = r.Max
	}
	return d/2 + rand.N(d/2+1)
}

// Wait waits so long; false: ctx has ended.
func (r Retry) Wait(ctx context.Context, fails int) bool { return Pause(ctx, r.After(fails)) }

// Pause waits for a time, or until ctx ends; false: ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
