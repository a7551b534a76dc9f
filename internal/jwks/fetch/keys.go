package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"fairway/internal/jwks"
	"fairway/internal/printable"
	"fairway/internal/web"
)

// Keys fetches the keys of a source; if only the issuer is known, it first fetches their address
// (https://openid.net/specs/openid-connect-discovery-1_0.html). ctx limits the time; the source's Timeout is ignored.
func Keys(ctx context.Context, client *http.Client, from jwks.Source) ([]jose.JSONWebKey, error) {
	at := from.URI
	if at == "" {
		var err error
		if at, err = discover(ctx, client, from.Issuer); err != nil {
			return nil, err
		}
	}
	text, err := get(ctx, client, at)
	if err != nil {
		return nil, err
	}
	keys, err := jwks.Parse(text)
	if err != nil {
		return nil, class{fmt.Errorf("%s: %w", at, err), errNoKeys}
	}
	return keys, nil
}

// discover asks an issuer for the address of its keys.
func discover(ctx context.Context, client *http.Client, issuer string) (string, error) {
	text, err := get(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", err
	}
	var found struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return "", class{fmt.Errorf("its configuration: %w", err), errNoKeys}
	}
	if found.Issuer != issuer {
		return "", class{fmt.Errorf("its configuration is that of issuer %q", printable.Text(found.Issuer, printable.Short)), errNoKeys}
	}
	return found.Keys, nil
}

// StatusError is a server's error status. Its text leaves out the Body: the author of an address must not read through the control plane
// what they cannot reach themselves.
type StatusError struct{ At, Status, Body string }

func (e *StatusError) Error() string { return e.At + ": " + printable.Text(e.Status, printable.Short) }

// get reads a page of the web.
func get(ctx context.Context, client *http.Client, at string) ([]byte, error) {
	if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, class{fmt.Errorf("%q is not a URL of the web", printable.Text(at, printable.Short)), errAddress}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if errors.Is(err, web.ErrBarred) {
		return nil, class{err, errBarred}
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, jwks.MostBytes+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, &StatusError{At: at, Status: resp.Status, Body: string(text)}
	case len(text) > jwks.MostBytes:
		return nil, class{fmt.Errorf("%s: more than %d bytes", at, jwks.MostBytes), errTooLarge}
	}
	return text, nil
}
