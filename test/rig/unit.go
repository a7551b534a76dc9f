package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Unit returns how systemd would start the agent of a machine: the variables, folder and command of the unit that pilotctl workload config
// wrote into dir. Path is that of the installed agent, so it must be replaced.
func Unit(t testing.TB, dir string) Command {
	t.Helper()
	unit := settings(t, filepath.Join(dir, "pilot-agent.service"))
	words := strings.Fields(unit["ExecStart"])
	if len(words) == 0 || words[0] != "/usr/local/bin/pilot-agent" {
		t.Fatalf("ExecStart=%s", unit["ExecStart"])
	}
	c := Command{Name: filepath.Base(dir), Path: words[0], Args: words[1:], Dir: unit["WorkingDirectory"]}
	for name, value := range settings(t, unit["EnvironmentFile"]) {
		c.Env = append(c.Env, name+"="+strings.Trim(value, "'"))
	}
	return c
}

// settings are the lines name=value of a file.
func settings(t testing.TB, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[name] = value
		}
	}
	return out
}
