package previousbin

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestObtain: the programs of the previous release are built, and run.
func TestObtain(t *testing.T) {
	dir, err := Obtain(t.Context(), os.Stderr)
	if errors.Is(err, ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pilot-discovery", "pilot-agent", "pilotctl"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name), "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Usage:") {
			t.Errorf("%s --help: %v %s", name, err, out)
		}
	}
}
