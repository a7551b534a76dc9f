package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// client asks one control plane.
type client struct {
	address string // host:port of --httpAddr
	http    *http.Client
}

func newClient(address string) *client {
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	if strings.HasPrefix(address, ":") { // as --httpAddr is often written
		address = "127.0.0.1" + address
	}
	return &client{address: address, http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// get returns a page's bytes. An error says what was asked and what to do.
func (c *client) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: c.address, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.address, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err // without the whole address again
		}
		return nil, fmt.Errorf("ask %s: %w; is pilot-discovery running, and is --address its --httpAddr?", c.address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(c.advice(resp, strings.TrimSpace(string(body))))
	}
	return body, nil
}

// page returns a page of something else than a control plane.
func (c *client) page(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return body, err
}

// advice turns the control plane's words into what to do here: it speaks of its pages, users of pilotctl of its verbs.
func (c *client) advice(resp *http.Response, body string) string {
	if resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || body == "" || strings.Contains(body, "\n") {
		return fmt.Sprintf("ask %s: %s; is --address the --httpAddr of pilot-discovery?", c.address, resp.Status)
	}
	body = strings.ReplaceAll(body, "/debug/syncz lists them", "pilotctl proxy-status lists them")
	return strings.ReplaceAll(body, "/debug/tablez lists them", "pilotctl tables lists them")
}

func fetch[T any](ctx context.Context, c *client, path string, query url.Values) (T, error) {
	var out T
	body, err := c.get(ctx, path, query)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("read %s: %w; is --address the --httpAddr of a pilot-discovery of this version?", path, err)
	}
	return out, nil
}
