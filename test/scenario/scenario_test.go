// Package scenario runs scripts over the whole control plane in one process, with a gRPC client that behaves as Envoy
// does. A script is a txtar file below testdata: its commands first, the files they use after them. Nothing sleeps:
// each command that changes something waits until all connected proxies have acknowledged it.
package scenario

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"fairway/internal/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScenarios runs every script. The commands are in commands_test.go.
func TestScenarios(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: golden.Update(),
		Setup:         func(env *testscript.Env) error { env.Values[worldKey{}] = newWorld(env); return nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mesh":     command((*world).mesh),
			"shutdown": command((*world).shutdown),
			"apply":    command((*world).apply),
			"delete":   command((*world).delete),
			"place":    command((*world).place),
			"remove":   command((*world).remove),
			"connect":  command((*world).connect),
			"leave":    command((*world).leave),
			"got":      command((*world).got),
			"held":     command((*world).held),
			"dump":     command((*world).dump),
			"problems": command((*world).problems),
			"applies":  command((*world).applies),
			"rows":     command((*world).rows),
			"report":   command((*world).report),
			"secret":   command((*world).secret),
		},
	})
}
