package proxy

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fairway/internal/agent/settings"
)

// The last agent of a network namespace that needs the setting switches it off, whichever had switched it on.
func TestMigrationIsOnWhileAnAgentNeedsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setting")
	name := "@" + rand.Text() + "/"
	another := func() *migration { return &migration{path: path, name: name} }
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, want string) {
		t.Helper()
		if text, _ := os.ReadFile(path); string(text) != want {
			t.Errorf("%s it is %q, want %q", when, text, want)
		}
	}
	if another().enable() {
		t.Error("enabled where there is no such setting")
	}
	set("0\n")
	first, second, third := another(), another(), another()
	for _, m := range []*migration{first, second, first} {
		if !m.enable() {
			t.Error("not enabled")
		}
	}
	want("while both need it", "1\n")
	first.end()
	first.end()
	want("while the second needs it", "1\n")
	if !third.enable() {
		t.Error("not enabled")
	}
	second.end()
	want("while the third needs it", "1\n")
	third.end()
	want("at the end", "0\n")

	set("1\n") // somebody else's
	if !first.enable() {
		t.Error("not enabled")
	}
	first.end()
	want("as others set it", "1\n")
}

func TestMoreThreadsNeedNothing(t *testing.T) {
	a := &agent{log: slog.New(slog.DiscardHandler), now: settings.Options{Concurrency: 1, Restarts: settings.Restarts{Hot: true}}}
	for _, n := range []int{0, 1, 2} {
		o := settings.Options{Concurrency: n, Restarts: settings.Restarts{Hot: true}}
		if got := a.keepThreads(o); got.Concurrency != n || a.migration.mark != nil {
			t.Errorf("%d became %d", n, got.Concurrency)
		}
	}
}
