package authn_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/internal/identity/authn"
)

// TestJoinTokensThatCannotBeRead: a remote caller learns that the tokens cannot be read, but not their path or the cause; the log has both.
func TestJoinTokensThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "join-tokens.json")
	var log bytes.Buffer
	tokens := authn.NewJoinTokens(dir, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
	text, err := tokens.Create(web, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	known, err := tokens.Authenticate(t.Context(), authn.Credentials{Token: text})
	if err != nil {
		t.Fatal(err)
	}
	for want, put := range map[string]func() error{
		"not a regular file": func() error { return syscall.Mkfifo(path, 0o600) },
		"too large":          func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 64<<20+1)) },
		"damaged":            func() error { return os.WriteFile(path, []byte(`[{"name": "secret-thing`), 0o600) },
	} {
		if err := errors.Join(os.Remove(path), put()); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		_, asked := tokens.Authenticate(t.Context(), authn.Credentials{Token: text})
		for _, err := range []error{asked, known.Bind(newPlatform(t, "x").key.Public())} {
			if !errors.Is(err, authn.ErrUnavailable) || strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), want) {
				t.Errorf("%s: a caller hears %v", want, err)
			}
		}
		if n := strings.Count(log.String(), want); n != 2 || strings.Count(log.String(), path) < 2 {
			t.Errorf("%s: the log says %q", want, log.String())
		}
		if _, err := tokens.List(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: a command says %v", want, err)
		}
	}
}
