package ctl

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/disk"
)

// certificates shows the credentials with which every connected proxy authenticated.
func (s *session) certificates() *cobra.Command {
	return &cobra.Command{
		Use: "certificates [PROXY]", Aliases: []string{"certs", "proxy-certificates"}, Args: cobra.MaximumNArgs(1),
		Short: "Show the certificate of each connected proxy, and when it expires",
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			shown, err := s.shown(cmd.Context(), name)
			if err != nil {
				return err
			}
			sh := output.Sheet{
				Header: []string{"NAME", "IDENTITY", "SHOWN", "VALID", "SERIAL NUMBER", "NOT AFTER", "LEFT"},
				Value:  shown,
				Empty:  "no proxy is connected",
			}
			for _, p := range shown {
				row := []string{page.ShortName(p.ProxyID), output.OrDash(p.Identity), p.By, "-", "-", "-", "-"}
				if c := p.Certificate; c != nil {
					row = append(row[:3], fmt.Sprint(c.Valid), c.Serial, stamp(c.NotAfter), left(c.NotAfter))
				}
				sh.Rows = append(sh.Rows, row)
			}
			return s.show(cmd, sh)
		}),
	}
}

// shown returns the credentials of all proxies, or of those that a name matches.
func (s *session) shown(ctx context.Context, name string) ([]page.ProxyCertificate, error) {
	all, err := gather[page.ProxyCertificate](ctx, s, "/debug/certz", nil)
	if err != nil || name == "" {
		return all, err
	}
	all = slices.DeleteFunc(all, func(p page.ProxyCertificate) bool { return page.Fit(p.ProxyID, page.Account(p.Identity), name) == 0 })
	if len(all) == 0 {
		return nil, fmt.Errorf("no connected proxy is called %q; pilotctl proxy-status lists them", name)
	}
	return all, nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// left returns how long something is still valid, for people.
func left(until time.Time) string {
	d := time.Until(until)
	switch {
	case d <= 0:
		return "ended"
	case d > 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
	return d.Round(time.Minute).String()
}

// secret is one line of proxy-config secret. It has no field for a key.
type secret struct {
	Name      string    `json:"name"`
	Type      string    `json:"type"`   // "Cert Chain" or "CA"
	Status    string    `json:"status"` // "ACTIVE", "WARMING", or why it could not be replaced
	Valid     bool      `json:"valid"`
	Serial    string    `json:"serialNumber,omitempty"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
}

func (x secret) row() []string {
	return []string{x.Name, x.Type, x.Status, fmt.Sprint(x.Valid), output.OrDash(x.Serial), stamp(x.NotAfter), stamp(x.NotBefore)}
}

// The types, in Istio's words.
const (
	chainType = "Cert Chain"
	rootsType = "CA"
)

func (s *session) secrets() *cobra.Command {
	var admin, agent, file, namespace string
	c := &cobra.Command{
		Use: "secret [PROXY]", Aliases: []string{"secrets", "s"}, Args: cobra.MaximumNArgs(1), ValidArgsFunction: s.Names,
		Short: "The certificates a proxy has: as it showed them here, or, on its machine, all that its agent or Envoy holds",
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			var found []secret
			var err error
			switch given := len(args) + boolInt(admin != "") + boolInt(agent != "") + boolInt(file != ""); {
			case given != 1:
				return errors.New("name one of: a proxy, --agent, --admin, --file")
			case admin != "":
				found, err = fromPage(cmd.Context(), "--admin", admin, "/config_dump", envoySecrets)
			case agent != "":
				found, err = fromPage(cmd.Context(), "--agent", agent, "/debug/agent", agentSecrets)
			case file != "":
				found, err = fromFile(file)
			default:
				var proxy string
				if proxy, err = s.Proxy(cmd.Context(), args[0], namespace); err == nil {
					found, err = s.shownSecrets(cmd.Context(), proxy)
				}
			}
			if err != nil {
				return err
			}
			sh := output.Sheet{
				Header: []string{"RESOURCE NAME", "TYPE", "STATUS", "VALID CERT", "SERIAL NUMBER", "NOT AFTER", "NOT BEFORE"},
				Value:  found,
				Empty:  "no certificates",
			}
			for _, x := range found {
				sh.Rows = append(sh.Rows, x.row())
			}
			return s.show(cmd, sh)
		}),
	}
	c.Flags().StringVar(&admin, "admin", "", "host:port of Envoy's administration (127.0.0.1:15000), to be asked on its machine")
	c.Flags().StringVar(&agent, "agent", "", "host:port of the agent's status port (127.0.0.1:15020), to be asked on its machine")
	c.Flags().StringVarP(&file, "file", "f", "", "a saved config_dump of Envoy's")
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the proxy")
	return c
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shownSecrets returns the secrets of a proxy that the control plane has seen.
func (s *session) shownSecrets(ctx context.Context, proxy string) ([]secret, error) {
	shown, err := s.shown(ctx, proxy)
	if err != nil {
		return nil, err
	}
	var out []secret
	for _, p := range shown {
		if c := p.Certificate; c != nil {
			out = append(out, secret{"default", chainType, "ACTIVE", c.Valid, c.Serial, c.NotAfter, c.NotBefore})
		}
	}
	return out, nil
}

func fromPage(ctx context.Context, flag, address, path string, read func([]byte) ([]secret, error)) ([]secret, error) {
	c := newClient(address)
	body, err := c.page(ctx, http.MethodGet, path, "")
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, address, err)
	}
	return read(body)
}

func fromFile(path string) ([]secret, error) {
	text, err := disk.Stream(path, mostBody)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	return envoySecrets(text)
}

// agentSecrets parses an agent's own report of its secrets.
func agentSecrets(text []byte) ([]secret, error) {
	var said struct {
		Certificates []struct {
			Name, Serial, Error string
			NotBefore, NotAfter time.Time
			Roots               int
		}
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("read /debug/agent: %w; is --agent the status port of a pilot-agent?", err)
	}
	var out []secret
	now := time.Now()
	for _, c := range said.Certificates {
		x := secret{c.Name, chainType, "ACTIVE", now.After(c.NotBefore) && now.Before(c.NotAfter), c.Serial, c.NotAfter, c.NotBefore}
		if c.Roots > 0 {
			x.Type = rootsType
		}
		if c.Error != "" {
			x.Status = "NOT RENEWED: " + c.Error
		}
		out = append(out, x)
	}
	return out, nil
}

// dumped has the used fields of Envoy's SecretsConfigDump (envoy/admin/v3/config_dump.proto).
type dumped struct {
	Name   string
	Secret struct {
		TLS *struct {
			Chain bytesOf `json:"certificate_chain"`
		} `json:"tls_certificate"`
		Validation *struct {
			Roots bytesOf `json:"trusted_ca"`
		} `json:"validation_context"`
	}
}

// bytesOf is a DataSource.
type bytesOf struct {
	Bytes string `json:"inline_bytes"`
	Text  string `json:"inline_string"`
	File  string `json:"filename"`
}

func (b bytesOf) pem() ([]byte, error) {
	switch {
	case b.Text != "":
		return []byte(b.Text), nil
	case b.File != "":
		return nil, fmt.Errorf("it is in the file %s", b.File)
	}
	return base64.StdEncoding.DecodeString(b.Bytes)
}

func envoySecrets(text []byte) ([]secret, error) {
	var dump struct {
		Configs []struct {
			Type    string   `json:"@type"`
			Active  []dumped `json:"dynamic_active_secrets"`
			Warming []dumped `json:"dynamic_warming_secrets"`
			Static  []dumped `json:"static_secrets"`
		}
	}
	if err := json.Unmarshal(text, &dump); err != nil {
		return nil, fmt.Errorf("read the config_dump: %w; want what Envoy's administration serves at /config_dump", err)
	}
	var out []secret
	for _, c := range dump.Configs {
		if !strings.HasSuffix(c.Type, ".SecretsConfigDump") {
			continue
		}
		for _, d := range append(c.Active, c.Static...) {
			out = append(out, d.line("ACTIVE"))
		}
		for _, d := range c.Warming {
			out = append(out, d.line("WARMING"))
		}
	}
	slices.SortFunc(out, func(a, b secret) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Status, b.Status)) })
	return out, nil
}

func (d dumped) line(status string) secret {
	x := secret{Name: d.Name, Type: chainType, Status: status}
	var from bytesOf
	switch {
	case d.Secret.TLS != nil:
		from = d.Secret.TLS.Chain
	case d.Secret.Validation != nil:
		x.Type, from = rootsType, d.Secret.Validation.Roots
	default:
		x.Type = "-"
		return x
	}
	text, err := from.pem()
	if err != nil {
		x.Status += ": " + err.Error()
		return x
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return x // not available yet
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		x.Status += ": " + err.Error()
		return x
	}
	now := time.Now()
	x.Serial, x.NotAfter, x.NotBefore = cert.SerialNumber.Text(16), cert.NotAfter, cert.NotBefore
	x.Valid = now.After(cert.NotBefore) && now.Before(cert.NotAfter)
	return x
}
