package state_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairway/internal/state"
)

func sealer(t *testing.T, of byte) state.Sealer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{of}, 32))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := state.NewSealer(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSealed: a record is read by its key under its name alone, whole, and never without a key that is there.
func TestSealed(t *testing.T) {
	one, other, none := sealer(t, 1), sealer(t, 2), state.Sealer{}
	text := []byte(strings.Repeat("secret ", 100))
	sealed, err := one.Seal("a", text)
	if err != nil || bytes.Contains(sealed, []byte("secret")) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := one.Open("a", sealed, 1<<10); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q, %v", got, err)
	}
	plain, err := none.Seal("a", text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := none.Open("a", plain, 1<<10); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q, %v", got, err)
	}
	for name, c := range map[string]struct {
		by     state.Sealer
		as     string
		record []byte
		limit  int64
		want   string
	}{
		"another name":          {one, "b", sealed, 1 << 10, "was changed"},
		"another key":           {other, "a", sealed, 1 << 10, "was changed"},
		"no key":                {none, "a", sealed, 1 << 10, "--stateKeyFile"},
		"not sealed":            {one, "a", plain, 1 << 10, "not trusted"},
		"cut":                   {one, "a", sealed[:5], 1 << 10, "damaged"},
		"changed":               {one, "a", append(sealed[:len(sealed)-1:len(sealed)-1], 0), 1 << 10, "was changed"},
		"nothing":               {none, "a", nil, 1 << 10, "damaged"},
		"noise":                 {none, "a", []byte{1, 2, 3}, 1 << 10, "damaged"},
		"a later form":          {none, "a", []byte{9}, 1 << 10, "later version"},
		"large once it is open": {one, "a", sealed, 10, "more than 10 bytes"},
	} {
		if _, err := c.by.Open(c.as, c.record, c.limit); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, bad := range []string{"", "short", strings.Repeat("A", 100)} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := state.NewSealer(file); err == nil || !strings.Contains(err.Error(), "32 random bytes in base64") {
			t.Errorf("key %q: %v", bad, err)
		}
	}
}
