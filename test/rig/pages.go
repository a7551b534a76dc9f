package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Call asks a page, within Bound, on a connection of its own. dial says how it is reached; nil: from here.
func Call(
	method, url string,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) (code int, body string, err error) {
	return call(method, url, "", dial)
}

// CallAgent asks a page of an agent, and shows the token that lies in its folder, as `pilot-agent request` does.
func CallAgent(method, url, folder string) (code int, body string, err error) {
	shown, err := os.ReadFile(filepath.Join(folder, "token"))
	if err != nil {
		return 0, "", err
	}
	return call(method, url, strings.TrimSpace(string(shown)), nil)
}

func call(
	method, url, token string,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("x-fairway-token", token)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Page asks a page for its text. A status other than 200 is an error.
func Page(url string) (string, error) {
	code, body, err := Call(http.MethodGet, url, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", url, code, body)
	}
	return body, err
}

// Metric is a metric that has no labels, of a page of them.
func Metric(url, name string) (n float64, err error) {
	text, err := Page(url)
	if err != nil {
		return 0, err
	}
	_, rest, has := strings.Cut(text, "\n"+name+" ")
	if !has {
		return 0, fmt.Errorf("%s has no %s", url, name)
	}
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0, fmt.Errorf("%s of %s: %w", name, url, err)
	}
	return n, nil
}

// KeepProfile writes a profile from a page into a folder. If folder is empty, it does nothing.
func KeepProfile(t testing.TB, folder, url, name string) {
	if folder == "" {
		return
	}
	text, err := Page(url)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".pprof"), []byte(text), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// Read asks a page for JSON.
func Read(url string, into any) error {
	body, err := Page(url)
	if err == nil {
		err = json.Unmarshal([]byte(body), into)
	}
	return err
}
