package command

import (
	"bytes"
	"strings"
	"testing"

	"fairway/internal/agent/proxy"
)

func TestCommandLineMistakes(t *testing.T) {
	for _, args := range []string{
		"prxy", "proxy ghost", "proxy sidecar router", "proxy --nope", "proxy --adminPort=x",
		"proxy --log_output_level=loud",
		"proxy --meshConfig=/nowhere/mesh", "proxy --proxyConfigs=/nowhere/objects",
	} {
		c := New(&bytes.Buffer{}, &bytes.Buffer{})
		c.SetArgs(strings.Fields(args))
		if err := c.ExecuteContext(t.Context()); proxy.ExitCode(err) != 2 {
			t.Errorf("%s: code %d (%v), want 2", args, proxy.ExitCode(err), err)
		}
	}
}
