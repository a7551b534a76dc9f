package agent

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// agent is the program that all tests run.
var agent = rig.Program{Name: "pilot-agent"}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &agent, &discovery)) }

// proxy is a pilot-agent and its Envoy.
type proxy struct {
	*rig.Process
	ip    string
	admin uint16
	dir   string // its working folder
	args  []string
}

// setup is how a proxy is started.
type setup struct {
	name  string
	ip    string
	plane string // host:port of the control plane
	envoy string
	args  []string
	env   []string
	dir   string // the working folder; empty: one of its own
	admin uint16 // port; 0: a free one
}

// with is what a proxy of a mesh needs.
func with(t *testing.T, m *live.Mesh, name string, args ...string) setup {
	return setup{name: name, ip: m.IP(name), plane: m.Addr("plane", 15010), envoy: live.NeedEnvoy(t), args: args}
}

// launch starts a pilot-agent. When the test ends it is stopped at once, and its log shown where the test failed.
func launch(t *testing.T, s setup) *proxy {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	if s.admin == 0 {
		s.admin = rig.FreePort(t)
	}
	process := rig.Workload{
		Command: rig.Command{
			Name: s.name, Path: agent.Path(t), Dir: s.dir, Env: s.env,
			Args: append([]string{"--adminPort", fmt.Sprint(s.admin), "--watchInterval", "20ms"}, s.args...),
		},
		IP: s.ip, Discovery: s.plane, Envoy: s.envoy, Drain: "300ms",
	}.Launch(t)
	return &proxy{Process: process, ip: s.ip, admin: s.admin, dir: s.dir, args: s.args}
}

func (p *proxy) page(path string) string { return "http://" + p.ip + ":15020" + path }

// folder is where the agent keeps its token and sockets.
func (p *proxy) folder() string {
	if at := slices.Index(p.args, "--configPath"); at >= 0 {
		return p.args[at+1]
	}
	return filepath.Join(p.dir, "etc/istio/proxy")
}

// call asks the agent's status port, as `pilot-agent request` does where something is to change.
func (p *proxy) call(method, path string) (int, string, error) {
	if method == http.MethodPost {
		return rig.CallAgent(method, p.page(path), p.folder())
	}
	return call(method, p.page(path))
}

func call(method, url string) (int, string, error) { return rig.Call(method, url, nil) }

// wantOK posts something that must go well.
func (p *proxy) wantOK(t *testing.T, path string) {
	t.Helper()
	if code, body, err := p.call(http.MethodPost, path); err != nil || code != http.StatusOK {
		t.Fatalf("POST %s: %d %s %v\n%s", path, code, body, err, p.Log)
	}
}

// facts is a part of /debug/agent.
type facts struct {
	Ready   bool
	Reasons []string
	Envoys  struct {
		Serving, Starting, Draining       *struct{ Epoch, BaseID, Pid int }
		Administration                    bool
		Starts, Handovers, Failed, InARow int
		Crashes                           int
		LastError                         string
	}
	Relay        struct{ Sessions []struct{ Connected bool } }
	Certificates []struct{ Name, Serial, Error string }
}

func (p *proxy) facts(t *testing.T) facts {
	t.Helper()
	f, err := p.tryFacts()
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Log)
	}
	return f
}

func (p *proxy) tryFacts() (f facts, err error) {
	err = rig.Read(p.page("/debug/agent"), &f)
	return f, err
}

// await waits until the agent's facts are as wanted.
func (p *proxy) await(t *testing.T, what string, is func(facts) bool) facts {
	t.Helper()
	var f facts
	rig.Eventually(t, func() error {
		p.Running(t)
		var err error
		if f, err = p.tryFacts(); err == nil && !is(f) {
			err = fmt.Errorf("not yet %s: %+v", what, f)
		}
		return err
	})
	return f
}

// ready waits until the proxy says so to others, through Envoy.
func (p *proxy) ready(t *testing.T) {
	t.Helper()
	rig.Eventually(t, func() error {
		p.Running(t)
		code, body, err := call(http.MethodGet, "http://"+p.ip+":15021/healthz/ready")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
}

// write puts a file into the proxy's folder.
func (p *proxy) write(t *testing.T, name, text string) {
	t.Helper()
	rig.Write(t, p.dir, name, []byte(text))
}

// leftovers returns the files for a base id in the folder of shared memory.
func leftovers(baseID int) []string {
	var out []string
	for _, pattern := range []string{"/dev/shm/envoy_shared_memory_%d0", "/dev/shm/fairway_base_id_%d"} {
		if name := fmt.Sprintf(pattern, baseID); exists(name) {
			out = append(out, name)
		}
	}
	return out
}

func wantNothingLeft(t *testing.T, baseID int) {
	t.Helper()
	if left := leftovers(baseID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// ends asks the agent to stop, and waits until it has, in order.
func (p *proxy) ends(t *testing.T) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// metrics returns the merged metrics.
func (p *proxy) metrics(t *testing.T) string {
	t.Helper()
	code, body, err := p.call(http.MethodGet, "/stats/prometheus")
	if err != nil || code != http.StatusOK {
		t.Fatalf("/stats/prometheus: %d %v", code, err)
	}
	return body
}

func wantContains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%.3000s", what, part, text)
		}
	}
}
