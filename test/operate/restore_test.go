package operate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// TestRestore: the state's folder is archived as docs/operate/backup.md says, lost, and extracted again. A control plane that meanwhile
// starts with an empty folder has another root: agents refuse it, and keep what they have. No request fails.
func TestRestore(t *testing.T) {
	_, current := releases(t)
	w := newWorld(t, current, "2m")
	w.follows(t, "before", current)
	load := live.StartLoad(t, live.HTTPClients("kept", 2, live.Request{To: w.Addr("front", 8000), Host: "shop.test"}))

	w.plane.Stop()
	state, archive := filepath.Join(w.dir, "state"), filepath.Join(w.dir, "fairway.tar.gz")
	tar := func(words ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "tar", words...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	tar("-C", state, "-czf", archive, "--preserve-permissions", ".")
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	w.startPlane(t, current)
	rig.Eventually(t, func() error {
		for _, m := range w.machines {
			if !strings.Contains(m.Log.String(), "the file belongs to another mesh") {
				return fmt.Errorf("%s has not refused the other root", m.name)
			}
		}
		return nil
	})
	load.Await(t, 20)

	w.plane.Stop()
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	tar("-C", state, "-xzf", archive, "--preserve-permissions")
	w.startPlane(t, current)
	w.follows(t, "restored", current)
	load.Await(t, 20)
	load.Stop(t)
}
