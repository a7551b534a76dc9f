package ctl

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fairway/internal/agent/token/shown"
	"fairway/internal/ctl/truth"
	"fairway/internal/printable"
)

// mostBody is the largest answer that is read, in bytes.
const mostBody = 1 << 30

// client sends requests to one control plane.
type client struct {
	address string // host:port of --httpAddr or --httpsAddr
	pod     string // of the control plane, if it is reached through its cluster
	scheme  string
	token   string // sent if it is not empty
	http    *http.Client
}

// newClient returns a client that uses plaintext, without credentials.
func newClient(address string) *client {
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	if strings.HasPrefix(address, ":") { // as --httpAddr is often written
		address = "127.0.0.1" + address
	}
	return &client{
		address: address,
		scheme:  "http",
		http:    &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: stay},
	}
}

// stay follows no redirect to another host: credentials go only where the user sends them.
func stay(to *http.Request, via []*http.Request) error {
	if len(via) > 3 || to.URL.Host != via[0].URL.Host || to.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Get implements truth.Plane. An error names the request and what to do.
func (c *client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, query, nil)
}

// Post implements truth.Plane.
func (c *client) Post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write a question: %w", err)
	}
	answer, err := c.do(ctx, http.MethodPost, path, nil, text)
	if err != nil {
		return err
	}
	return c.decode(path, answer, into)
}

// Change implements truth.Plane.
func (c *client) Change(ctx context.Context, path string, query url.Values, into any) error {
	answer, err := c.do(ctx, http.MethodPost, path, query, []byte("{}"))
	if err != nil {
		return err
	}
	return c.decode(path, answer, into)
}

// do asks for a page, and sends a body of JSON if there is one.
func (c *client) do(ctx context.Context, method, path string, query url.Values, sent []byte) ([]byte, error) {
	u := url.URL{Scheme: c.scheme, Host: c.address, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.address, err)
	}
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unanswered(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBody))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &truth.AnswerError{Status: resp.StatusCode, Text: c.advice(resp, strings.TrimSpace(string(body)))}
	}
	return body, nil
}

// planeName returns the control plane's name in messages.
func (c *client) planeName() string {
	if c.pod != "" {
		return "control plane " + c.pod
	}
	return c.address
}

// Called implements truth.Plane.
func (c *client) Called() string {
	if c.pod != "" {
		return c.pod
	}
	return c.address
}

// unanswered explains what may be wrong when no answer came.
func (c *client) unanswered(err error) error {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err // without the whole address again
	}
	if c.pod != "" {
		return fmt.Errorf("ask %s: %w; pilotctl version says which control planes answer", c.planeName(), err)
	}
	var name x509.HostnameError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("ask %s: %w; say with --server-name which of these names is meant", c.address, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("ask %s: %w; give the mesh's root with --cacert", c.address, err)
	case c.scheme == "https":
		return fmt.Errorf("ask %s: %w; is pilot-discovery running, and is --address its --httpsAddr?", c.address, err)
	}
	return fmt.Errorf("ask %s: %w; is pilot-discovery running, and is --address its --httpAddr?", c.address, err)
}

// page returns a page of a server that is not a control plane. A token of an agent is shown if it is not empty.
func (c *client) page(ctx context.Context, method, path, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.address+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set(shown.Header, token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostBody))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return body, err
}

// advice adds to the control plane's error text what a user of pilotctl can do.
func (c *client) advice(resp *http.Response, body string) string {
	if resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || body == "" || strings.Contains(body, "\n") {
		if c.pod != "" {
			return fmt.Sprintf("ask %s: %s", c.planeName(), resp.Status)
		}
		return fmt.Sprintf("ask %s: %s; is --address the --httpAddr of pilot-discovery?", c.address, resp.Status)
	}
	body = printable.Text(body, printable.Long)
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Sprintf("%s does not know who asks: %s; give --token-file FILE, or --cert FILE and --key FILE", c.planeName(), body)
	case http.StatusForbidden:
		return fmt.Sprintf(
			"%s refuses: %s; pilotctl asks so with --address https://HOST:15017 --cacert FILE and --token-file FILE, or "+
				"--cert FILE and --key FILE",
			c.planeName(),
			body,
		)
	}
	body = strings.ReplaceAll(body, "/debug/syncz lists them", "pilotctl proxy-status lists them")
	return strings.ReplaceAll(body, "/debug/tablez lists them", "pilotctl tables lists them")
}

func fetch[T any](ctx context.Context, c *client, path string, query url.Values) (out T, err error) {
	err = c.Fetch(ctx, path, query, &out)
	return out, err
}

// Fetch implements truth.Plane.
func (c *client) Fetch(ctx context.Context, path string, query url.Values, into any) error {
	body, err := c.Get(ctx, path, query)
	if err != nil {
		return err
	}
	return c.decode(path, body, into)
}

// decode reads the answer of a page.
func (c *client) decode(path string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		if c.pod != "" {
			return fmt.Errorf("read %s of %s: %w; is it of this version?", path, c.planeName(), err)
		}
		return fmt.Errorf("read %s: %w; is --address the --httpAddr of a pilot-discovery of this version?", path, err)
	}
	return nil
}
