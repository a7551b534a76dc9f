package epoch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"fairway/internal/disk"
	"fairway/internal/disk/faulty"
	"fairway/test/rig"
)

// failing returns a disk where one operation fails while on is set.
func failing(on *atomic.Bool, operation string, err error) disk.Files {
	return faulty.Files{Files: disk.OS, Fail: func(said, _ string) error {
		if on.Load() && said == operation {
			return err
		}
		return nil
	}}
}

// TestABootstrapThatCannotBeWritten: whatever fails, the serving Envoy serves on by its plan, the error names the cause and a
// remedy, no Envoy is started with half a file, no file is left behind, and the next restart succeeds once the disk works again.
func TestABootstrapThatCannotBeWritten(t *testing.T) {
	for _, operation := range []string{"create", "write", "rename"} {
		var broken atomic.Bool
		var fault atomic.Value
		w := start(t, "a", func(o *Options) {
			o.Files = faulty.Files{Files: disk.OS, Fail: func(said, _ string) error {
				if err, is := fault.Load().(error); is && broken.Load() && said == operation {
					return err
				}
				return nil
			}}
		})
		w.live(t)
		before := w.State()
		for _, one := range faulty.Errors {
			fault.Store(one)
			broken.Store(true)
			err := w.restart(t, "another bootstrap, which is longer")
			var mistake *PlanError
			if !errors.As(err, &mistake) || !errors.Is(err, one) || !strings.Contains(err.Error(), "--configPath") {
				t.Errorf("%s: %v, want a PlanError of %v", operation, err, one)
			}
			if now := w.State(); now.Serving.Pid != before.Serving.Pid || now.Starts != before.Starts || !now.Serving.Live {
				t.Errorf("%s: %+v", operation, now)
			}
			broken.Store(false)
		}
		if text, err := os.ReadFile(before.Serving.Bootstrap); err != nil || string(text) != "a" {
			t.Errorf("%s: the serving Envoy's bootstrap is %q, %v", operation, text, err)
		}
		if left, _ := filepath.Glob(filepath.Join(w.o.Dir, ".envoy*")); len(left) != 0 {
			t.Errorf("%s: left behind: %v", operation, left)
		}
		if err := w.restart(t, "b"); err != nil {
			t.Fatal(err)
		}
		if h := w.history(); strings.Contains(h, "start another") || !strings.Contains(h, "start b epoch 1") {
			t.Errorf("%s: history:\n%s", operation, h)
		}
	}
}

// TestTheFirstBootstrapThatCannotBeWritten is an error of the start, and leaves nothing.
func TestTheFirstBootstrapThatCannotBeWritten(t *testing.T) {
	for _, operation := range []string{"create", "write", "rename"} {
		for _, fault := range faulty.Errors {
			var broken atomic.Bool
			broken.Store(true)
			w := start(t, "a", func(o *Options) { o.Files = failing(&broken, operation, fault) })
			var mistake *PlanError
			if err := w.ends(t); !errors.As(err, &mistake) || !errors.Is(err, fault) {
				t.Errorf("%s: %v", operation, err)
			}
			if _, err := os.Stat(w.o.Dir); !errors.Is(err, os.ErrNotExist) || w.history() != "" {
				t.Errorf("%s: the folder: %v; history %q", operation, err, w.history())
			}
		}
	}
}

// TestAnOrphansBootstrapThatCannotBeRead: its plan equals no other, never one with half a file; the reason is reported.
func TestAnOrphansBootstrapThatCannotBeRead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, bootstrapName+"0.json")
	if err := os.WriteFile(file, []byte("a bootstrap of more than seven bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := exec.Command(os.Args[0])
	other.Args = []string{os.Args[0], "--config-path", file, "--base-id", "3", "--restart-epoch", "0"}
	other.Env = []string{stays + "=1"}
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as launch has it
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	eventually(t, "an orphan", func() bool { return len(orphans(dir)) == 1 })
	found := orphans(dir)[0]
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // hotRestartVersion does not run the program: it would not answer
	whole, err := found.plan(ctx, disk.OS, nil)
	if err != nil || string(whole.Bootstrap) != "a bootstrap of more than seven bytes" {
		t.Fatalf("%q, %v", whole.Bootstrap, err)
	}
	var broken atomic.Bool
	broken.Store(true)
	for _, operation := range []string{"stat", "open", "fstat", "read"} {
		for _, fault := range faulty.Errors {
			plan, err := found.plan(ctx, failing(&broken, operation, fault), nil)
			if !errors.Is(err, fault) || !strings.Contains(err.Error(), file) || plan.Bootstrap != nil || plan.Equal(whole) {
				t.Errorf("%s: %q, %v, want %v", operation, plan.Bootstrap, err, fault)
			}
		}
	}
	again, err := found.plan(ctx, failing(&broken, "none", nil), nil) // short reads alone
	if err != nil || !again.Equal(whole) {
		t.Errorf("read seven bytes at a time: %q, %v", again.Bootstrap, err)
	}
	lines := &rig.Log{}
	s := New(
		Options{
			Dir:        dir,
			Memory:     t.TempDir(),
			HotRestart: true,
			Log:        slog.New(slog.NewTextHandler(lines, nil)),
			Files:      failing(&broken, "open", faulty.Errors[0]),
			Live:       func(context.Context, Plan, uint32) bool { return false },
		},
	)
	if s.folder, err = openFolder(s.o.Files, dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.watchOrphans(ctx, &family{baseID: 3}, []orphan{found}) {
		p.kill()
	}
	if said := lines.String(); !strings.Contains(said, fmt.Sprint(faulty.Errors[0])) || !strings.Contains(said, "cannot be read") {
		t.Errorf("the log says %q", said)
	}
}
