package command

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"fairway/internal/inherited"
	"fairway/test/rig"
)

// maxFile is how many bytes a file may have that the agent reads.
const maxFile = 67108864

// TestNameserversOfNoFile: a pipe, or a file beyond the limit, in the place of resolv.conf is an error that names it, at once; the
// read never waits for a writer.
func TestNameserversOfNoFile(t *testing.T) {
	rig.NoFiles(t, "resolv.conf", maxFile, func(path string) error {
		_, err := nameservers(path)
		return err
	})
}

// TestInheritedFlags: every flag of the table is accepted, those in force alone are shown, and the command has no others but its own.
func TestInheritedFlags(t *testing.T) {
	c := interceptCommand(io.Discard)
	own := []string{"backend", "cleanup"}
	state := map[string]inherited.State{}
	for _, g := range inherited.Interception().Flags {
		for _, name := range g.Names {
			state[name] = g.State
			flag := c.Flags().Lookup(name)
			if flag == nil {
				t.Errorf("--%s is not accepted", name)
			} else if g.State == inherited.InForce && flag.Hidden {
				t.Errorf("--%s is in force, and not shown", name)
			}
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if state[f.Name] == "" && !slices.Contains(own, f.Name) {
			t.Errorf("--%s is in no table", f.Name)
		}
	})
}

// TestFlagsWithoutEffect: a command line of Istio's is accepted, and flags without effect are reported.
func TestFlagsWithoutEffect(t *testing.T) {
	var out, said bytes.Buffer
	c := interceptCommand(&out)
	c.SetErr(&said)
	c.SetArgs(strings.Fields("-b * -i * -u 1337 --dry-run --run-validation --iptables-probe-port 15002 --cni-mode=true --force-apply"))
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"level=WARN msg=\"a flag of Istio's has no effect\" flag=--run-validation", "flag=--iptables-probe-port", "flag=--cni-mode",
		"level=INFO msg=\"a flag of Istio's has no effect\" flag=--force-apply",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("lacks %s:\n%s", want, said.String())
		}
	}
	if !strings.Contains(out.String(), "15006") || strings.Contains(said.String(), "dry-run") {
		t.Errorf("printed %s, said %s", out.String(), said.String())
	}
}
