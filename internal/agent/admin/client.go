package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"fairway/internal/agent/token"
)

// timeout bounds one question; an Envoy with a thousand clusters writes its statistics in a fraction of a second.
const timeout = 10 * time.Second

// Client asks one administration. It may be used by several goroutines.
type Client struct {
	base string
	http *http.Client

	token token.Token
}

// New gives a client of the administration at address, written host:port.
func New(address string) *Client {
	return &Client{base: "http://" + address, http: &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// NewAtSocket returns a client of the administration at a unix socket. Before each connection it renames the socket from bound,
// where Envoy created it, to moved, and connects there. Every user of the machine can read bound in the kernel's list of sockets;
// only the agent knows moved.
func NewAtSocket(bound, moved string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		if err := os.Rename(bound, moved); err == nil {
			_ = os.Chmod(moved, 0o600) // its folder keeps other users out too
		}
		var d net.Dialer
		return d.DialContext(ctx, "unix", moved)
	}
	return &Client{
		base: "http://envoy",
		http: &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}},
	}
}

// WithToken has each request of the client show a token.
func (c *Client) WithToken(t token.Token) *Client {
	c.token = t
	return c
}

// NewWithoutTimeout is New without a timeout: an answer may take as long as a drain.
func NewWithoutTimeout(address string) *Client {
	c := New(address)
	c.http.Timeout = 0
	return c
}

// StatusError is an answer other than 200.
type StatusError struct {
	Path   string
	Status int
	Body   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s is answered with %d: %.500s", e.Path, e.Status, strings.TrimSpace(e.Body))
}

// Live is the state of an Envoy that serves; the others are those of envoy.admin.v3.ServerInfo.State.
const Live = "LIVE"

// ServerInfo is the part of /server_info that the agent needs.
type ServerInfo struct {
	State string // LIVE, DRAINING (its health was failed), PRE_INITIALIZING, INITIALIZING
	Epoch uint32 // --restart-epoch of the Envoy that answers
}

// ServerInfo returns the state and the epoch of the Envoy that answers.
func (c *Client) ServerInfo(ctx context.Context) (ServerInfo, error) {
	_, body, err := c.ok(ctx, http.MethodGet, "/server_info")
	if err != nil {
		return ServerInfo{}, err
	}
	var answer struct {
		State   string `json:"state"`
		Options struct {
			Epoch uint32 `json:"restart_epoch"`
		} `json:"command_line_options"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return ServerInfo{}, fmt.Errorf("read /server_info: %w", err)
	}
	return ServerInfo{State: answer.State, Epoch: answer.Options.Epoch}, nil
}

// Stats returns the counters and gauges that match a regular expression (RE2, anywhere in the name).
func (c *Client) Stats(ctx context.Context, pattern string) (map[string]int64, error) {
	_, body, err := c.ok(ctx, http.MethodGet, "/stats?filter="+url.QueryEscape(pattern))
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(body)) {
		i := strings.LastIndex(line, ": ")
		if i < 0 {
			continue
		}
		if v, err := strconv.ParseInt(strings.TrimSpace(line[i+2:]), 10, 64); err == nil {
			out[line[:i]] = v
		}
	}
	return out, nil
}

// Post has Envoy do something: "/healthcheck/fail".
func (c *Client) Post(ctx context.Context, path string) error {
	_, _, err := c.ok(ctx, http.MethodPost, path)
	return err
}

// Prometheus opens /stats/prometheus; the caller closes it.
func (c *Client) Prometheus(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodGet, "/stats/prometheus")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
		return nil, &StatusError{Path: "/stats/prometheus", Status: resp.StatusCode, Body: string(body)}
	}
	return resp.Body, nil
}

// Do sends any request and gives the answer, whatever its status. Path may hold a query.
func (c *Client) Do(ctx context.Context, method, path string) (status int, body []byte, err error) {
	resp, err := c.send(ctx, method, path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func (c *Client) ok(ctx context.Context, method, path string) (int, []byte, error) {
	status, body, err := c.Do(ctx, method, path)
	if err == nil && status != http.StatusOK {
		err = &StatusError{Path: path, Status: status, Body: string(body)}
	}
	return status, body, err
}

func (c *Client) send(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/"+strings.TrimPrefix(path, "/"), nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set(token.Header, string(c.token))
	}
	return c.http.Do(req)
}
