package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// certificateLife is short, so that the demo shows how certificates are replaced; in production they are good for a day.
const certificateLife = 16 * time.Second

// proxyNames are the names of the agents and of the service accounts in their certificates. The rules use them too.
var proxyNames = [...]string{"productpage", "reviews", "ingressgateway"}

// proxyAddresses are the agents' INSTANCE_IPs; their own ports are on them.
var proxyAddresses = [...]string{productpageIn, reviewsV2In, local}

// authority returns the folder where the control plane keeps its root, and the hashes of the tokens that admit agents.
func (w *world) authority() string { return filepath.Join(w.dir, "ca") }

// token returns the file with an agent's one-time token.
func (w *world) token(name string) string { return filepath.Join(w.dir, "tokens", name) }

// inviteAll makes a one-time token for each agent, as for machines without a platform that vouches for them.
func (w *world) inviteAll(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(w.dir, "tokens"), 0o700); err != nil {
		return fmt.Errorf("make the tokens' folder: %w", err)
	}
	for _, name := range proxyNames {
		create := exec.CommandContext(ctx, filepath.Join(w.bin, "pilot-discovery"), "token", "create", "--caStateDir",
			w.authority(), "-n", "default", "--serviceAccount", name)
		token, err := create.Output()
		if err != nil {
			var ended *exec.ExitError
			if errors.As(err, &ended) {
				err = fmt.Errorf("%w: %s", err, ended.Stderr)
			}
			return fmt.Errorf("make a token for %s: %w", name, err)
		}
		if err := os.WriteFile(w.token(name), token, 0o600); err != nil {
			return fmt.Errorf("make a token for %s: %w", name, err)
		}
	}
	return nil
}

// certificate is a certificate of an Envoy, as its administration prints it.
type certificate struct {
	Serial string `json:"serial_number"`
	Names  []struct {
		URI string `json:"uri"`
	} `json:"subject_alt_names"`
	Until time.Time `json:"expiration_time"`
}

func (c certificate) identity() string {
	if len(c.Names) == 0 {
		return ""
	}
	return c.Names[0].URI
}

// shown returns the certificate that a proxy uses now.
func (w *world) shown(ctx context.Context, proxy int) (certificate, error) {
	body, status, err := fetch(ctx, w.http(w.ports.admin[proxy], "/certs"), nil)
	if err != nil || status != http.StatusOK {
		return certificate{}, fmt.Errorf("read the certificates of %s: status %d, %w", proxyNames[proxy], status, err)
	}
	var all struct {
		Certificates []struct {
			Chain []certificate `json:"cert_chain"`
		} `json:"certificates"`
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return certificate{}, fmt.Errorf("read the certificates of %s: %w", proxyNames[proxy], err)
	}
	for _, c := range all.Certificates {
		if len(c.Chain) > 0 {
			return c.Chain[0], nil
		}
	}
	return certificate{}, fmt.Errorf("%s shows no certificate", proxyNames[proxy])
}

// showMutual: reviews v2 and the product page accept only mutual TLS, and their proxies use it by themselves.
func showMutual(ctx context.Context, w *world, out io.Writer) error {
	const reviews = 1
	p, err := w.visit(ctx, jason)
	if err != nil {
		return err
	}
	if p.reviews() != "v2" {
		return fmt.Errorf("want reviews v2 over mutual TLS, got %q (status %d, %s)", p.reviews(), p.Status, p.Error)
	}
	c, err := w.shown(ctx, reviews)
	if err != nil {
		return err
	}
	want := "spiffe://cluster.local/ns/default/sa/" + proxyNames[reviews]
	if c.identity() != want {
		return fmt.Errorf("reviews v2 shows itself as %q, want %s", c.identity(), want)
	}
	_, status, err := fetch(ctx, "http://"+at(reviewsV2In, w.ports.service)+"/", nil)
	if err == nil {
		return fmt.Errorf("reviews v2 answered plaintext with %d", status)
	}
	fmt.Fprintf(out, "  product page to reviews v2: answered, by %s\n  the same in plaintext, past the proxies: refused\n", c.identity())
	return nil
}
