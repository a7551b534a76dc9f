package operate

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"fairway/build/previousbin"
	"fairway/test/envoy/live"
	"fairway/test/rig"
)

var (
	discovery = rig.Program{Name: "pilot-discovery"}
	agent     = rig.Program{Name: "pilot-agent"}
	ctl       = rig.Program{Name: "pilotctl"}
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &discovery, &agent, &ctl)) }

// release has the paths of one release's programs.
type release struct{ name, discovery, agent, ctl string }

func releases(t *testing.T) (previous, current release) {
	t.Helper()
	dir, err := previousbin.Obtain(t.Context(), os.Stderr)
	if errors.Is(err, previousbin.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return release{"previous", in("pilot-discovery"), in("pilot-agent"), in("pilotctl")},
		release{"current", discovery.Path(t), agent.Path(t), ctl.Path(t)}
}

// change replaces agents by those of another release: two are killed, and the next agent adopts their Envoy, as systemd does with the
// machine's unit; one is stopped gracefully.
func (w *world) change(t *testing.T, load *live.Load, to release) {
	t.Helper()
	for _, name := range []string{"shop-a", "front"} {
		w.machines[name].Kill()
		load.Await(t, 5)
		w.start(t, to, name)
		load.Await(t, 20)
	}
	w.machines["shop-b"].Signal(syscall.SIGTERM)
	if code := w.machines["shop-b"].Exit(t); code != 0 {
		t.Errorf("shop-b ended with %d", code)
	}
	w.start(t, to, "shop-b")
	load.AwaitFrom(t, "kept", "shop-b")
}

// TestUpgradeAndBack: first the control plane, then the agents, then the control plane back, then the agents. After each step the rules are
// followed, and no request fails.
func TestUpgradeAndBack(t *testing.T) {
	previous, current := releases(t)
	w := newWorld(t, previous, "20s")
	w.follows(t, "all of the previous release", previous, current)
	to := live.Request{To: w.Addr("front", 8000), Host: "shop.test"}
	closing := to
	closing.Header = map[string]string{"Connection": "close"}
	load := live.StartLoad(t, live.HTTPClients("kept", 2, to), live.HTTPClients("closed", 2, closing))
	load.AwaitFrom(t, "kept", "shop-a")
	load.AwaitFrom(t, "kept", "shop-b")

	plane := func(r release) {
		w.plane.Stop()
		load.Await(t, 5)
		w.startPlane(t, r)
	}
	plane(current)
	w.follows(t, "this control plane, agents of the previous release", previous, current)
	w.change(t, load, current)
	w.follows(t, "all of this release", previous, current)
	plane(previous)
	w.follows(t, "control plane of the previous release, agents of this one", previous, current)
	w.change(t, load, previous)
	w.follows(t, "all of the previous release again") // its agents do not report that an adopted Envoy has warmed: wait would not end
	load.Await(t, 20)
	load.Stop(t)
	t.Log(load)
}
