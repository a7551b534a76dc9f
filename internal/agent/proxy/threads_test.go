package proxy

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"fairway/internal/agent/settings"
)

func TestMigrationIsEnabled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setting")
	if kept, _ := enableMigration(path); kept {
		t.Error("kept where there is no such setting")
	}
	os.WriteFile(path, []byte("0\n"), 0o600)
	kept, restore := enableMigration(path)
	if text, _ := os.ReadFile(path); !kept || string(text) != "1\n" {
		t.Errorf("kept %t, setting %q", kept, text)
	}
	if again, none := enableMigration(path); !again || none != nil {
		t.Error("changed what was set")
	}
	restore()
	if text, _ := os.ReadFile(path); string(text) != "0\n" {
		t.Errorf("setting %q", text)
	}
}

func TestMoreThreadsNeedNothing(t *testing.T) {
	a := &agent{log: slog.New(slog.DiscardHandler), now: settings.Options{Concurrency: 1, Restarts: settings.Restarts{Hot: true}}}
	for _, n := range []int{0, 1, 2} {
		o := settings.Options{Concurrency: n, Restarts: settings.Restarts{Hot: true}}
		if got := a.keepThreads(o); got.Concurrency != n || a.restore != nil {
			t.Errorf("%d became %d", n, got.Concurrency)
		}
	}
}
