package ca_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/internal/identity/ca"
)

// instead puts a pipe, or a file that takes no room and is beyond every limit, in the place of one.
func instead(t *testing.T, path string, pipe bool) {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if pipe {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 64<<20+1); err != nil {
		t.Fatal(err)
	}
}

// TestFilesThatAreNone: if one of the authority's files is a pipe or too large, there is an error that names it, at once; a running
// authority keeps its state.
func TestFilesThatAreNone(t *testing.T) {
	at := newClock()
	root := below(t, nil, "root", at)
	low := below(t, &root, "low", at)
	for _, name := range []string{"ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem", "ca-crl.pem", "ca.json", "revoked.json"} {
		for _, pipe := range []bool{true, false} {
			dir, o := t.TempDir(), at.options()
			if strings.HasSuffix(name, ".pem") {
				o = at.options(pluggedIn(dir))
				place(t, dir, istioFiles(t, low, low.pem(), root.pem()))
			} else {
				o, _ = keptIn(t, at)
				dir = o.State
			}
			running := open(t, o)
			before := running.Status().Signs.Serial
			instead(t, filepath.Join(dir, name), pipe)
			running.Reload()
			if now := running.Status().Signs.Serial; now != before {
				t.Errorf("%s: %s signs, it was %s", name, now, before)
			}
			failed := make(chan error, 1)
			go func() {
				_, err := ca.Open(o)
				failed <- err
			}()
			select {
			case err := <-failed:
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s, a pipe: %t: %v", name, pipe, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: who never writes is waited for", name)
			}
		}
	}
}
