package ctl

import (
	"context"
	"encoding/json"
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
	return &client{address: strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/"), http: &http.Client{Timeout: 30 * time.Second}}
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
		return nil, fmt.Errorf("ask %s: %w; is pilot-discovery running, and is --address its --httpAddr?", c.address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(body)))
	}
	return body, nil
}

func fetch[T any](ctx context.Context, c *client, path string, query url.Values) (T, error) {
	var out T
	body, err := c.get(ctx, path, query)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}
