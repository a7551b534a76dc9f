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

// Read asks a page for JSON.
func Read(url string, into any) error {
	code, body, err := Call(http.MethodGet, url, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", url, code, body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), into)
	}
	return err
}
