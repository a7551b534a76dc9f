package state

import (
	"fmt"
	"strings"
	"testing"

	"fairway/test/gate"
	"fairway/test/rig"
)

// starter is a machine of a control plane; the way to the store can be cut.
type starter struct {
	kind, key, dir, rules, under string
	gate                         *gate.Gate
	secure, http, grpc           string
}

func newStarter(t *testing.T, kind, key, rules string, g *gate.Gate) *starter {
	t.Helper()
	port := func() string { return fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)) }
	return &starter{
		kind: kind, key: key, dir: rig.Folder(t), rules: rules, under: prefix(t), gate: g, secure: port(), http: port(), grpc: port(),
	}
}

func (s *starter) args() []string {
	return []string{
		"discovery", "--grpcAddr=" + s.grpc, "--secureGRPCAddr=" + s.secure, "--httpAddr=" + s.http, "--httpsAddr=", "--monitoringAddr=",
		"--shutdownDuration=10ms", "--registries=", "--configDir=" + s.rules, "--caStateDir=" + s.dir,
		fmt.Sprintf("--state=%s://127.0.0.1:%d/%s", s.kind, s.gate.Port(), s.under), "--stateKeyFile=" + s.key,
	}
}

// launch starts the control plane, and returns at once.
func (s *starter) launch(t *testing.T, name string) *rig.Process {
	t.Helper()
	return rig.Launch(t, rig.Command{Name: name, Path: discovery.Path(t), Dir: s.dir, Args: s.args()})
}

// awaitReady waits until the page says that the control plane is ready, or why not.
func (s *starter) awaitReady(t *testing.T, p *rig.Process, why string) {
	t.Helper()
	rig.Eventually(t, func() error {
		p.Running(t)
		text, err := rig.Page("http://" + s.http + "/ready")
		switch {
		case why == "" && err == nil && strings.HasPrefix(text, "ready"):
			return nil
		case why != "" && err != nil && strings.Contains(err.Error(), why):
			return nil
		}
		return fmt.Errorf("want %q: %q, %v", why, text, err)
	})
}

// root is the serial number of the root that signs.
func (s *starter) root(t *testing.T) string {
	t.Helper()
	var out struct {
		Signs struct{ Serial string }
		Roots []struct{ Serial string }
	}
	if err := rig.Read("http://"+s.http+"/debug/caz", &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Roots) != 1 {
		t.Errorf("%d roots", len(out.Roots))
	}
	return out.Signs.Serial
}

// testStartsWhileTheStoreIsAway: a control plane that has run before starts from its copy, and is ready. One that has not waits: it is not
// ready, and a problem says why. Once the store is back both have the root of the mesh.
func testStartsWhileTheStoreIsAway(t *testing.T, kind string, at server) {
	_, key := sealer(t)
	g, _ := at.Gate(t)
	rules := t.TempDir()
	old, fresh := newStarter(t, kind, key, rules, g), newStarter(t, kind, key, rules, g)
	before := old.launch(t, "before")
	old.awaitReady(t, before, "")
	root := old.root(t)
	before.Kill()
	g.Close()
	again, waits := old.launch(t, "again"), fresh.launch(t, "fresh")
	old.awaitReady(t, again, "")
	if got := old.root(t); got != root {
		t.Errorf("the copy has root %s, want %s", got, root)
	}
	fresh.awaitReady(t, waits, "the root of the mesh is not known")
	rig.Eventually(t, func() error {
		text, err := rig.Page("http://" + fresh.http + "/debug/problems")
		if err == nil && !strings.Contains(text, "no certificate is issued here") {
			err = fmt.Errorf("the problems are %s", text)
		}
		return err
	})
	g.Open(t)
	fresh.awaitReady(t, waits, "")
	if got := fresh.root(t); got != root {
		t.Errorf("a control plane that waited has root %s, want %s", got, root)
	}
	for _, s := range []*starter{old, fresh} {
		rig.Eventually(t, func() error {
			text, err := rig.Page("http://" + s.http + "/debug/problems")
			if err == nil && strings.Contains(text, "StateAway") {
				err = fmt.Errorf("the problems are %s", text)
			}
			return err
		})
	}
}
