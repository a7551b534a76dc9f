package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"fairway/internal/agent/peer"
	"fairway/internal/web"
)

// Front answers at the port where users look for Envoy's administration. Envoy itself listens on a unix socket that only the agent
// finds. Pages that only show something answer requests from this machine, but not requests that come out of an Envoy; requests
// that change something need the agent's token. No page shows the agent's secrets.
type Front struct {
	listener net.Listener
	http     *http.Server
}

// pages are those that change nothing (envoyproxy.io, Operations and administration, Administration interface).
var pages = map[string]bool{
	"/":                    true,
	"/help":                true,
	"/certs":               true,
	"/clusters":            true,
	"/config_dump":         true,
	"/contention":          true,
	"/hot_restart_version": true,
	"/init_dump":           true,
	"/listeners":           true,
	"/memory":              true,
	"/ready":               true,
	"/runtime":             true,
	"/server_info":         true,
	"/stats":               true,
	"/stats/prometheus":    true,
	"/stats/recentlookups": true,
}

// Access says who may ask, and what.
type Access struct {
	Gate    *peer.Gate
	Secrets []string         // texts that no answer of Envoy's holds
	Levels  http.HandlerFunc // the agent's own page of the levels of its log; nil: there is none
}

// levelsPath is the only page here that is the agent's own, so that pilotctl reaches it where it reaches Envoy.
const levelsPath = "/debug/scopez"

// ListenFront opens the port, so that a port in use is reported before anything is started; requests are answered only after Run.
func ListenFront(address string, to *Client, access Access, log *slog.Logger) (*Front, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := web.New(front{to, access}, web.Options{Log: log, Answer: 5 * time.Minute})
	server.ConnContext = peer.Connected
	return &Front{l, server}, nil
}

// Close closes the port if Run was never called.
func (f *Front) Close() { f.listener.Close() }

// Run answers until ctx ends.
func (f *Front) Run(ctx context.Context, up func()) error {
	failed := make(chan error, 1)
	go func() { failed <- f.http.Serve(f.listener) }()
	up()
	select {
	case err := <-failed:
		return fmt.Errorf("answer for Envoy's administration: %w", err)
	case <-ctx.Done():
	}
	f.http.Close()
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer for Envoy's administration: %w", err)
	}
	return nil
}

// front is the handler.
type front struct {
	to *Client
	Access
}

// ServeHTTP forwards a request, or answers why not.
func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	do, shows := f.forward, pages[r.URL.Path]
	if f.Levels != nil && r.URL.Path == levelsPath {
		do, shows = f.Levels, true
	}
	if r.Method == http.MethodGet && shows {
		f.Gate.Read(do)(w, r)
		return
	}
	f.Gate.Change(do)(w, r)
}

func (f front) forward(w http.ResponseWriter, r *http.Request) {
	resp, err := f.to.send(r.Context(), r.Method, r.URL.RequestURI())
	if err != nil {
		http.Error(w, "Envoy's administration does not answer: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for _, name := range []string{"Content-Type", "X-Content-Type-Options"} {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	out := &redactor{to: w, secrets: f.Secrets}
	if _, err := io.Copy(out, resp.Body); err == nil {
		_ = out.flush() // a caller that left is not a loss
	}
}

// redacted replaces each secret.
const redacted = "[redacted]"

// Redact returns the text without the secrets.
func Redact(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	return text
}

// redactor writes its input without the secrets, also if a secret arrives in two parts.
type redactor struct {
	to       io.Writer
	secrets  []string
	buffered []byte // may be the beginning of a secret
}

// Write implements io.Writer.
func (v *redactor) Write(p []byte) (int, error) {
	v.buffered = append(v.buffered, p...)
	text := Redact(string(v.buffered), v.secrets)
	keep := 0
	for _, s := range v.secrets {
		for n := min(len(s)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, s[:n]) {
				keep = n
			}
		}
	}
	v.buffered = append(v.buffered[:0], text[len(text)-keep:]...)
	_, err := io.WriteString(v.to, text[:len(text)-keep])
	return len(p), err
}

func (v *redactor) flush() error {
	_, err := v.to.Write(v.buffered)
	return err
}
