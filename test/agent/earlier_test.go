package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// procList is one of a process's files of words that end with a zero.
func procList(t *testing.T, pid int, name string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// TestAnEnvoyOfAnEarlierVersion: an Envoy that was started with an abstract hot-restart socket and with all of its
// agent's variables is adopted. It is hot-restarted through that socket, so that the new Envoy does not have the
// variables; the agent says what is left to do.
func TestAnEnvoyOfAnEarlierVersion(t *testing.T) {
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	s := with(t, m, "web", quick...)
	s.dir, s.admin = t.TempDir(), rig.FreePort(t)
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	first := p.facts(t).Envoys.Serving
	words, vars := procList(t, first.Pid, "cmdline"), procList(t, first.Pid, "environ")
	p.Kill()
	_ = syscall.Kill(first.Pid, syscall.SIGKILL)
	at := slices.Index(words, "--socket-path")
	if at < 0 {
		t.Fatalf("Envoy's command line: %q", words)
	}
	words = slices.Delete(words, at, at+4)
	rig.Eventually(t, func() error {
		if !zombie(first.Pid) {
			return fmt.Errorf("Envoy %d has not ended", first.Pid)
		}
		return nil
	})
	earlier := rig.Launch(t,
		rig.Command{Name: "earlier", Path: words[0], Args: words[1:], Dir: s.dir, Env: append(vars, "MY_TOKEN=s3cr3t")})
	p.agentless(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))
	load.more(t, 50)

	p = launch(t, s)
	after := p.await(t, "adopted and replaced",
		func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 && f.Envoys.Draining == nil }).Envoys.Serving
	load.more(t, 50)
	load.stop(t)
	if after.BaseID != first.BaseID || after.Epoch != 1 || after.Pid == earlier.Pid() {
		t.Errorf("%+v follows %+v", after, first)
	}
	if words := procList(t, after.Pid, "cmdline"); slices.Contains(words, "--socket-path") {
		t.Errorf("it would not find its parent: %q", words)
	}
	if vars := procList(t, after.Pid, "environ"); strings.Contains(strings.Join(vars, "\n"), "s3cr3t") {
		t.Errorf("variables: %q", vars)
	}
	wantContains(t, "log", p.Log.String(), "started by an earlier version's agent")
}

// agentless waits until Envoy serves the application, with no agent that could say so.
func (p *proxy) agentless(t *testing.T) {
	t.Helper()
	rig.Eventually(t, func() error {
		code, _, err := call("GET", "http://"+p.ip+":15021/healthz/ready")
		if err == nil && code == 0 {
			err = fmt.Errorf("code %d", code)
		}
		return err
	})
}
