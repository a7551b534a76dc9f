package printable

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Secrets removes known secrets from texts that strangers wrote: a server that is sent a token may write it into its answers. The zero
// value knows none. It is safe for concurrent use.
type Secrets struct {
	mu    sync.Mutex
	known []string // newest last
}

const (
	mostSecrets = 16  // including replaced ones
	secretPart  = 10  // consecutive bytes of a secret that are removed
	leastSecret = 4   // bytes of the shortest secret that is removed
	hidden      = "…" // in the place of a secret, or of a part of one
)

// Add adds a secret: a token, a password, or a header that holds one, as "Bearer …". The forms that it has in URLs and in base64 are then
// known too. Adding it again changes nothing.
func (s *Secrets) Add(secret string) {
	if scheme, rest, both := strings.Cut(secret, " "); both && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
		secret = strings.TrimSpace(rest)
	}
	if len(secret) < leastSecret {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.known, secret) {
		return
	}
	s.known = append(s.known, secret)
	for _, form := range []string{url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
		if form != secret {
			s.known = append(s.known, strings.TrimRight(form, "="))
		}
	}
	if text, err := base64.StdEncoding.DecodeString(secret); err == nil { // of basic authentication: name and password
		if _, password, both := strings.Cut(string(text), ":"); both && len(password) >= leastSecret {
			s.known = append(s.known, password)
		}
	}
	if more := len(s.known) - mostSecrets; more > 0 {
		s.known = slices.Clone(s.known[more:])
	}
}

// Hide replaces known secrets in a text, and their parts of 10 bytes or more, by "…". A shorter secret is replaced as a whole.
func (s *Secrets) Hide(text string) string {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	shown := text
	for _, secret := range known {
		shown = hide(shown, secret)
	}
	if shown != text {
		shown = strings.ReplaceAll(shown, hidden+hidden, hidden) // parts of two forms of a secret may meet
	}
	return shown
}

func hide(text, secret string) string {
	if len(secret) <= secretPart {
		return strings.ReplaceAll(text, secret, hidden)
	}
	parts := make(map[string]struct{}, len(secret))
	for i := range len(secret) - secretPart + 1 {
		parts[secret[i:i+secretPart]] = struct{}{}
	}
	var out strings.Builder
	kept := 0 // up to here text is in out, or hidden
	for i := 0; i+secretPart <= len(text); i++ {
		if _, is := parts[text[i:i+secretPart]]; !is {
			continue
		}
		end := i + secretPart
		for end < len(text) {
			if _, is := parts[text[end-secretPart+1:end+1]]; !is {
				break
			}
			end++
		}
		out.WriteString(text[kept:i])
		out.WriteString(hidden)
		kept, i = end, end-1
	}
	if kept == 0 {
		return text
	}
	out.WriteString(text[kept:])
	return out.String()
}

// Error returns err with a text that hides secrets. errors.Is and errors.As find the errors that err wraps as before. nil stays nil.
func (s *Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if shown := s.Hide(text); shown != text {
		return &hiding{shown, err}
	}
	return err
}

type hiding struct {
	text string
	err  error
}

func (h *hiding) Error() string { return h.text }
func (h *hiding) Unwrap() error { return h.err }

// Handler returns a handler of logs that hides secrets in messages, texts and errors before next has them.
func (s *Secrets) Handler(next slog.Handler) slog.Handler { return secretHandler{s, next} }

type secretHandler struct {
	secrets *Secrets
	next    slog.Handler
}

func (h secretHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h secretHandler) WithGroup(name string) slog.Handler {
	return secretHandler{h.secrets, h.next.WithGroup(name)}
}

func (h secretHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return secretHandler{h.secrets, h.next.WithAttrs(h.attrs(attrs))}
}

func (h secretHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.secrets.Hide(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h secretHandler) attrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	return out
}

func (h secretHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.secrets.Hide(v.String()))
	case slog.KindGroup:
		v = slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindAny:
		switch is := v.Any().(type) {
		case error:
			v = slog.AnyValue(h.secrets.Error(is))
		case fmt.Stringer:
			if text := is.String(); h.secrets.Hide(text) != text {
				v = slog.StringValue(h.secrets.Hide(text))
			}
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
