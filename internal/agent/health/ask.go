package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// TCP returns an error if host:port does not accept a connection.
func TCP(ctx context.Context, at string) error {
	conn, err := Dial(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return conn.Close()
}

// GRPC checks a service by grpc.health.v1 at host:port; empty: the server as a whole.
func GRPC(ctx context.Context, at, service string) error {
	conn, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent("kube-probe/fairway"), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) { return Dial(ctx, "tcp", at) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return errors.New("the application says " + s.String())
	}
	return nil
}

// mostRedirects is how many redirects of an application are followed, as many as a kubelet follows.
const mostRedirects = 10

// SameHostOnly follows redirects as the kubelet does: a redirect to another host is the answer, because another host cannot say
// whether this application is healthy; an application that redirects more than ten times is not healthy.
func SameHostOnly(next *http.Request, via []*http.Request) error {
	if next.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= mostRedirects {
		return fmt.Errorf("it redirects more than %d times", mostRedirects)
	}
	return nil
}

// Target returns the URL of a check of httpGet. The path and query are requested exactly as they are written; a path that is no
// valid URL is escaped.
func Target(scheme, host, path string) *url.URL {
	path = "/" + strings.TrimPrefix(path, "/")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	u.Scheme, u.Host = scheme, host
	return u
}

// client asks an application over HTTP.
type client struct{ http.Client }

func newClient() *client {
	return &client{http.Client{CheckRedirect: SameHostOnly, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: Dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as the kubelet's probes: it asks for health, not for identity
	}}}
}

// ask returns an error unless the answer has a status from 200 to 399.
func (c *client) ask(ctx context.Context, target, host string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	req.Header, req.Host = header, host
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 400 {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
	return fmt.Errorf("%s answers %s%s", target, resp.Status, quoted(said))
}

// maxSaid bounds the part of an application's output that is passed on, in bytes.
const maxSaid = 200

func quoted(said []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said), "")), " ")
	if text == "" {
		return ""
	}
	return ": " + text[:min(len(text), maxSaid)]
}

// run runs a command, and kills it with all that it started when ctx ends.
func run(ctx context.Context, words []string) error {
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &head{to: &out}, &head{to: &out}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second // a grandchild of another group may hold its output open
	err := c.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end in time", words[0])
	}
	return fmt.Errorf("%s: %w%s", words[0], err, quoted(out.Bytes()))
}

// head keeps the beginning of its input.
type head struct{ to *bytes.Buffer }

func (h *head) Write(b []byte) (int, error) {
	h.to.Write(b[:min(len(b), max(0, maxSaid-h.to.Len()))])
	return len(b), nil
}
