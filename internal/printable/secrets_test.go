package printable

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// No text has the secret: neither whole, nor cut, nor in the forms of URLs and base64.
func TestSecretsAreHidden(t *testing.T) {
	const token = "eyJhbGciOi.SGVsbG8gd29y+bGQ/secret"
	var s Secrets
	s.Add("Bearer " + token)
	s.Add("Basic " + base64.StdEncoding.EncodeToString([]byte("admin:hunter22")))
	s.Add("x")
	for text, want := range map[string]string{
		"unknown token " + token + ".":                                              "unknown token ….",
		"you sent Authorization: Bearer " + token[:20] + " and more":                "you sent Authorization: Bearer … and more",
		"at " + token[5:20] + ", and " + token[3:]:                                  "at …, and …",
		"eyJhbGciOi.SGVsbG8gd29y%2BbGQ%2Fsecret":                                    "…",
		base64.StdEncoding.EncodeToString([]byte(token)):                            "…",
		"password hunter22":                                                         "password …",
		base64.StdEncoding.EncodeToString([]byte("admin:hunter22")) + " is refused": "… is refused",
		"nothing of it: x":                                                          "nothing of it: x",
		"":                                                                          "",
	} {
		if got := strings.TrimRight(s.Hide(text), "="); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := new(Secrets).Hide(token); got != token {
		t.Errorf("without secrets %q is shown", got)
	}
}

// Errors keep the errors that they wrap, and logs have no secret in messages, texts, groups and errors.
func TestSecretsAreInNoLog(t *testing.T) {
	const token = "0123456789abcdef"
	var s Secrets
	s.Add(token)
	why := errors.New("refused " + token)
	if err := s.Error(fmt.Errorf("list: %w", why)); err.Error() != "list: refused …" || !errors.Is(err, why) || s.Error(nil) != nil {
		t.Errorf("the error is %v", err)
	}
	if plain := errors.New("plain"); s.Error(plain) != plain { //nolint:errorlint // the very error
		t.Error("an error without a secret is another one")
	}
	var out bytes.Buffer
	log := slog.New(s.Handler(slog.NewTextHandler(&out, nil))).With("with", token).WithGroup("g")
	log.Log(context.Background(), slog.LevelInfo, "message "+token, "error", why, "text", token, slog.Group("in", "deep", token), "n", 1)
	if strings.Contains(out.String(), token) || strings.Count(out.String(), "…") != 5 {
		t.Errorf("the log has %s", out.String())
	}
}
