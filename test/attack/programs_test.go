package attack

import (
	"os"
	"testing"

	"fairway/test/rig"
)

// The programs that are attacked as processes of their own, each built once.
var (
	discovery = rig.Program{Name: "pilot-discovery"}
	pilotctl  = rig.Program{Name: "pilotctl"}
	agent     = rig.Program{Name: "pilot-agent"}
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &discovery, &pilotctl, &agent)) }
