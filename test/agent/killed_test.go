package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// discovery is the control plane as a program.
var discovery = rig.Program{Name: "pilot-discovery"}

// victims are a control plane and an agent that may be killed and started again.
type victims struct {
	*live.Mesh
	t     *testing.T
	dir   string // the control plane's
	setup setup
	plane *rig.Process
	agent *proxy
	took  time.Duration // for the first agent to be ready
	cpu   time.Duration // of a processor that it took until then
}

// newVictims starts both, with rules.
func newVictims(t *testing.T, rules func(*live.Mesh) string) *victims {
	t.Helper()
	v := &victims{Mesh: live.Start(t, live.Options{}), t: t, dir: t.TempDir()}
	v.setup = with(t, v.Mesh, "web", append(quick[:len(quick):len(quick)], "--watchInterval", "1s")...)
	v.setup.plane, v.setup.dir, v.setup.admin = v.Addr("istiod", 15012), t.TempDir(), rig.FreePort(t)
	v.setup.env = []string{"SERVICE_ACCOUNT=web", "PROV_CERT=./certificates", "OUTPUT_CERTS=./certificates"}
	rig.Write(t, v.dir, "rules/web.yaml", []byte(rules(v.Mesh)))
	out, err := exec.Command(discovery.Path(t), "token", "create", "-n", "default", "--serviceAccount", "web", "--caStateDir",
		v.dir+"/ca").Output()
	if err != nil {
		t.Fatal(err)
	}
	rig.Write(t, v.setup.dir, "var/run/secrets/tokens/istio-token", []byte(strings.TrimSpace(string(out))))
	v.startPlane()
	rig.Write(t, v.setup.dir, "var/run/secrets/istio/root-cert.pem", []byte(v.root()))
	agent.Path(t) // building it does not count
	began := time.Now()
	v.agent = launch(t, v.setup)
	v.agent.ready(t)
	v.took, v.cpu = time.Since(began), v.agent.CPU(t)
	return v
}

func (v *victims) startPlane() {
	v.t.Helper()
	v.plane = rig.ControlPlane{
		Command: rig.Command{Path: discovery.Path(v.t), Dir: v.dir, Args: []string{"--configDir", "rules", "--caStateDir", "ca"}},
		Secure:  v.Addr("istiod", 15012), HTTP: v.Addr("istiod", 8080),
	}.Launch(v.t)
}

func (v *victims) root() string {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join(v.dir, "ca", "root-cert.pem"))
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// connected waits until the agent is ready and reaches the control plane.
func (v *victims) connected() (f facts) {
	v.t.Helper()
	return v.agent.await(v.t, "ready and connected", func(f facts) bool {
		for _, s := range f.Relay.Sessions {
			if !s.Connected {
				return false
			}
		}
		return f.Ready && len(f.Relay.Sessions) > 0 && f.Envoys.Draining == nil
	})
}

// seed is of the moments and the victims; FAIRWAY_SEED names another one.
func seed(t *testing.T) uint64 {
	said := os.Getenv("FAIRWAY_SEED")
	if said == "" {
		return 11
	}
	n, err := strconv.ParseUint(said, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKilledAtRandomMoments: agent and control plane are killed, each alone and one after the other, while Envoy
// serves, while it is being replaced, and while they start. Envoy serves on, the program that starts next continues
// from the state that it finds, and no request fails.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel() // most of its time it waits for parents to go
	app := startApplication(t)
	const rounds = 8
	chance := rand.New(rand.NewPCG(seed(t), rounds))
	v := newVictims(t, func(m *live.Mesh) string { return serving(t, m, "web", app) })
	v.connected()
	root := v.root()
	load := gather(t, v.Addr("web", 8080), v.Addr("web", 8081), "web.test", v.Addr("web", 9000))
	moment := func(most int) { load.more(t, 1+chance.IntN(most)) }
	adopted := 0
	for i := range rounds {
		before := v.connected().Envoys.Serving
		who := chance.IntN(3) // 0: the agent, 1: the control plane, 2: both
		replaced := who != 1 && i%2 == 1
		if replaced {
			v.agent.Signal(syscall.SIGHUP)
		}
		moment(400)
		if who != 1 {
			v.agent.Kill()
			moment(200)
		}
		if who != 0 {
			v.plane.Kill()
			moment(200)
			v.startPlane()
		}
		if who != 1 {
			v.agent = launch(t, v.setup)
		}
		after := v.connected()
		if !replaced && (after.Envoys.Serving.Pid != before.Pid || after.Envoys.Starts > 0 && who != 1) {
			t.Errorf("round %d: Envoy %+v follows %+v", i, after.Envoys, before)
		}
		if strings.Contains(v.agent.Log.String(), "adopted") {
			adopted++
		}
		load.more(t, 200)
	}
	if v.root() != root {
		t.Error("the control plane has another root")
	}
	load.stop(t)
	if adopted == 0 {
		t.Error("no Envoy was adopted")
	}
	v.agent.wantOK(t, "/hot-restart")
	serving := v.connected().Envoys.Serving
	v.agent.ends(t)
	wantNothingLeft(t, serving.BaseID)
	if files, _ := filepath.Glob(filepath.Join(v.setup.dir, "etc/istio/proxy/envoy*")); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}

// TestTheAgentIsKilled: the next agent takes over an Envoy that is left behind: unchanged, with other settings if these
// are asked for, and finally to end it.
func TestTheAgentIsKilled(t *testing.T) {
	m := live.Start(t, live.Options{})
	m.Set(t, inbound(t, m, "web", application{1, 2}))
	s := with(t, m, "web", quick...)
	s.dir, s.admin = t.TempDir(), rig.FreePort(t)
	p := launch(t, s)
	p.ready(t)
	envoy := p.facts(t).Envoys.Serving
	p.Kill()
	if err := syscall.Kill(envoy.Pid, 0); err != nil {
		t.Fatalf("Envoy did not outlive its agent: %v\n%s", err, p.Log)
	}
	p = launch(t, s)
	f := p.await(t, "adopted", func(f facts) bool { return f.Ready })
	if f.Envoys.Serving.Pid != envoy.Pid || f.Envoys.Starts != 0 || f.Envoys.Serving.BaseID != envoy.BaseID {
		t.Errorf("adopted is %+v, after %+v", f.Envoys, envoy)
	}
	p.Kill()

	s.env = []string{"PROXY_CONFIG={concurrency: 1, runtimeValues: {another: way}}"}
	p = launch(t, s)
	f = p.await(t, "replaced", func(f facts) bool { return f.Ready && f.Envoys.Handovers == 1 && f.Envoys.Draining == nil })
	if f.Envoys.Serving.Epoch != envoy.Epoch+1 || f.Envoys.Serving.BaseID != envoy.BaseID {
		t.Errorf("it is replaced by %+v", f.Envoys.Serving)
	}
	p.Kill()

	p = launch(t, s)
	last := p.await(t, "adopted again", func(f facts) bool { return f.Ready }).Envoys.Serving
	if err := syscall.Kill(last.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f = p.await(t, "started again", func(f facts) bool { return f.Ready && f.Envoys.Starts == 1 })
	p.Kill()

	p = launch(t, s)
	p.await(t, "adopted for the last time", func(f facts) bool { return f.Ready })
	p.ends(t)
	if err := syscall.Kill(f.Envoys.Serving.Pid, 0); err == nil && !zombie(f.Envoys.Serving.Pid) {
		t.Error("an adopted Envoy outlives the orderly end of its agent")
	}
}

// TestKilledWithTheSuccessor: agent and the epoch that starts are killed, after the serving Envoy has closed its
// administration for that epoch. It serves on until the next agent has another epoch take over, and no request fails.
func TestKilledWithTheSuccessor(t *testing.T) {
	t.Parallel() // most of its time it waits for an Envoy that does not answer
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	s := with(t, m, "web", quick...)
	s.dir, s.admin = t.TempDir(), rig.FreePort(t)
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))
	first := p.facts(t).Envoys.Serving

	m.Plane.Stop(t) // an Envoy that starts now waits for it
	p.Signal(syscall.SIGHUP)
	starting := p.await(t, "an epoch starts", func(f facts) bool { return f.Envoys.Starting != nil }).Envoys.Starting
	rig.Eventually(t, func() error {
		if n := listening(t, first.Pid); n > 0 {
			return fmt.Errorf("the serving Envoy's administration is open: %d sockets", n)
		}
		return nil
	})
	p.Kill()
	if err := syscall.Kill(starting.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	load.more(t, 100)
	m.Plane.Start(t)
	p = launch(t, s)
	f := p.await(t, "another epoch", func(f facts) bool { return f.Ready && f.Envoys.Draining == nil })
	if next := f.Envoys.Serving; f.Envoys.Handovers != 1 || f.Envoys.Starts != 1 || next.Epoch != first.Epoch+1 ||
		next.BaseID != first.BaseID {
		t.Errorf("%+v follow %+v", f.Envoys, first)
	}
	load.stop(t)
	p.ends(t)
	wantNothingLeft(t, first.BaseID)
}

// listening counts the unix sockets on which a process waits for connections.
func listening(t *testing.T, pid int) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	const accepts = "00010000" // among the flags, the fourth word; the seventh is the inode
	waiting := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) > 6 && words[3] == accepts {
			waiting["socket:["+words[6]+"]"] = true
		}
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && waiting[to] {
			n++
		}
	}
	return n
}

// TestKilledInAHotRestart: the next agent completes the restart that is under way, whether a parent drains or an epoch
// will never serve, and no request fails.
func TestKilledInAHotRestart(t *testing.T) {
	t.Parallel() // most of its time it waits for parents to go
	m := live.Start(t, live.Options{})
	app := startApplication(t)
	m.Set(t, serving(t, m, "web", app))
	s := with(t, m, "web", append(quick[:len(quick):len(quick)], "--restartTimeout", "3s")...)
	s.dir, s.admin = t.TempDir(), rig.FreePort(t)
	p := launch(t, s)
	p.ready(t)
	m.Settle(t)
	load := gather(t, m.Addr("web", 8080), m.Addr("web", 8081), "web.test", m.Addr("web", 9000))
	first := p.facts(t).Envoys.Serving

	p.Signal(syscall.SIGHUP)
	p.await(t, "a parent drains", func(f facts) bool { return f.Envoys.Draining != nil })
	p.Kill()
	load.more(t, 100)
	p = launch(t, s)
	second := p.await(t, "the parent gone", func(f facts) bool { return f.Ready && f.Envoys.Draining == nil }).Envoys.Serving
	if second.Epoch != first.Epoch+1 || second.BaseID != first.BaseID {
		t.Errorf("%+v follows %+v", second, first)
	}

	m.Plane.Stop(t) // an Envoy that starts now waits for it
	p.Signal(syscall.SIGHUP)
	p.await(t, "an epoch starts", func(f facts) bool { return f.Envoys.Starting != nil })
	p.Kill()
	load.more(t, 100)
	p = launch(t, s)
	p.await(t, "the epoch given up", func(f facts) bool { return f.Envoys.Failed > 0 && f.Envoys.Serving.Pid == second.Pid })
	load.more(t, 100)
	m.Plane.Start(t)
	third := p.await(t, "the next one",
		func(f facts) bool { return f.Ready && f.Envoys.Draining == nil && f.Envoys.Handovers == 1 }).Envoys.Serving
	if third.Epoch != second.Epoch+1 || third.BaseID != second.BaseID {
		t.Errorf("%+v follows %+v", third, second)
	}
	load.stop(t)
	p.ends(t)
	wantNothingLeft(t, third.BaseID)
}

// zombie says that a process has ended, and only its parent has not noticed.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}
