package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestKeepWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "setting")
	if kept, _ := keepWaiting(path); kept {
		t.Error("kept where there is no such setting")
	}
	os.WriteFile(path, []byte("0\n"), 0o600)
	kept, restore := keepWaiting(path)
	if text, _ := os.ReadFile(path); !kept || string(text) != "1\n" {
		t.Errorf("kept %t, setting %q", kept, text)
	}
	if again, none := keepWaiting(path); !again || none != nil {
		t.Error("changed what was set")
	}
	restore()
	if text, _ := os.ReadFile(path); string(text) != "0\n" {
		t.Errorf("setting %q", text)
	}
}

func TestMoreThreadsNeedNothing(t *testing.T) {
	a := &agent{log: slog.New(slog.DiscardHandler), now: Options{Concurrency: 1, Restarts: Restarts{Hot: true}}}
	for _, n := range []int{0, 1, 2} {
		if got := a.safely(Options{Concurrency: n, Restarts: Restarts{Hot: true}}); got.Concurrency != n || a.restore != nil {
			t.Errorf("%d became %d", n, got.Concurrency)
		}
	}
}
