package epoch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBootstrapsAreThisUsersAlone: only this user can read their files and the folder that is made for them; an existing folder
// stays as it is, and a warning is logged if other users may write to it.
func TestBootstrapsAreThisUsersAlone(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	for path, mode := range map[string]os.FileMode{
		w.o.Dir:                           0o700 | os.ModeDir,
		w.State().Serving.Bootstrap:       0o600,
		filepath.Join(w.o.Dir, socketDir): 0o700 | os.ModeDir,
	} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info, err, mode)
		}
	}
	if strings.Contains(w.log.String(), "others may write") {
		t.Errorf("a complaint:\n%s", w.log)
	}
	open := filepath.Join(t.TempDir(), "open")
	os.Mkdir(open, 0o700)
	os.Chmod(open, 0o777)
	w = start(t, "a", func(o *Options) { o.Dir = open })
	w.live(t)
	if info, err := os.Stat(w.State().Serving.Bootstrap); err != nil || info.Mode() != 0o600 ||
		!strings.Contains(w.log.String(), "others may write") {
		t.Errorf("%v, %v\n%s", info, err, w.log)
	}
}

// TestWhatKilledAgentsLeftIsSwept: files that were being written, and bootstraps that no Envoy runs with; what others put there stays.
func TestWhatKilledAgentsLeftIsSwept(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".envoy-rev3.json-123", ".envoy-checked.json-9", "envoy-checked.json", "envoy-rev7.json", "envoy-rev8.json",
		"mine", ".mine",
	} {
		os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600)
	}
	os.Mkdir(filepath.Join(dir, "envoy-rev9"), 0o700)
	other := exec.Command("sleep", "1000")
	other.Args = []string{"sleep", "--config-path", filepath.Join(dir, "envoy-rev8.json")}
	other.Path = os.Args[0]
	other.Env = []string{stays + "=1"}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	eventually(t, "a process that uses a bootstrap", func() bool { return inUse()[filepath.Join(dir, "envoy-rev8.json")] })
	w := start(t, "a", func(o *Options) { o.Dir = dir })
	w.live(t)
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	var got []string
	for _, path := range left {
		got = append(got, filepath.Base(path))
	}
	if want := ".mine envoy-rev0.json envoy-rev8.json envoy-rev9 hot-restart mine"; strings.Join(got, " ") != want {
		t.Errorf("left: %s, want %s", strings.Join(got, " "), want)
	}
}

// TestEnvoyHasThePlansVariablesAlone.
func TestEnvoyHasThePlansVariablesAlone(t *testing.T) {
	t.Setenv("MY_SECRET", "s")
	w := start(t, "a", nil)
	w.live(t)
	if !strings.Contains(w.history(), "variables 0") {
		t.Errorf("Envoy has the agent's variables:\n%s", w.history())
	}
}
