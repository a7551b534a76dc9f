package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairway/build/envoybin"
	"fairway/test/envoy/live"
)

// program is the pilot-agent that all tests run, built once.
var program = sync.OnceValues(func() (string, error) {
	root, err := envoybin.Root()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "pilot-agent")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/pilot-agent")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build pilot-agent: %w\n%s", err, out)
	}
	return filepath.Join(dir, "pilot-agent"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// proxy is a pilot-agent and what it runs.
type proxy struct {
	ip      string
	admin   uint16
	dir     string // its working folder
	command *exec.Cmd
	log     words
	exited  chan struct{}
	err     error // once exited is closed
}

// words is the file that a process writes to; Envoys that outlive their agent write on.
type words struct{ path string }

func (w words) String() string {
	text, err := os.ReadFile(w.path)
	if err != nil {
		return err.Error()
	}
	return string(text)
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
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	if s.admin == 0 {
		s.admin = freePort(t)
	}
	log, err := os.CreateTemp(t.TempDir(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &proxy{ip: s.ip, admin: s.admin, dir: s.dir, log: words{log.Name()}, exited: make(chan struct{})}
	p.write(t, "etc/istio/pod/labels", fmt.Sprintf("app=%q\n", s.name))
	args := []string{"proxy", "sidecar", "--discoveryAddress", s.plane, "--envoy", s.envoy, "--adminPort", fmt.Sprint(p.admin), "--watchInterval", "20ms", "--concurrency", "1"}
	p.command = exec.Command(path, append(args, s.args...)...)
	p.command.Dir = p.dir
	p.command.Env = append(os.Environ(), append([]string{
		"POD_NAME=" + s.name, "POD_NAMESPACE=default", "INSTANCE_IP=" + s.ip, "ISTIO_META_INTERCEPTION_MODE=NONE",
		"MINIMUM_DRAIN_DURATION=300ms",
	}, s.env...)...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		p.signal(syscall.SIGINT)
		<-p.exited
		if t.Failed() {
			t.Logf("--- %s\n%s", s.name, p.log)
		}
	})
	return p
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func (p *proxy) signal(s syscall.Signal) { p.command.Process.Signal(s) }

// exit waits for the process and gives its code.
func (p *proxy) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.command.ProcessState.ExitCode()
	case <-time.After(live.Bound):
		t.Fatalf("pilot-agent does not end\n%s", p.log)
		return -1
	}
}

func (p *proxy) page(path string) string { return "http://" + p.ip + ":15020" + path }

// call asks the agent's status port.
func (p *proxy) call(method, path string) (int, string, error) { return call(method, p.page(path)) }

func call(method, url string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), live.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// wantOK posts something that must go well.
func (p *proxy) wantOK(t *testing.T, path string) {
	t.Helper()
	if code, body, err := p.call(http.MethodPost, path); err != nil || code != http.StatusOK {
		t.Fatalf("POST %s: %d %s %v\n%s", path, code, body, err, p.log)
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
}

func (p *proxy) facts(t *testing.T) facts {
	t.Helper()
	f, err := p.tryFacts()
	if err != nil {
		t.Fatalf("%v\n%s", err, p.log)
	}
	return f
}

func (p *proxy) tryFacts() (f facts, err error) {
	code, body, err := p.call(http.MethodGet, "/debug/agent")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("/debug/agent: %d %s", code, body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &f)
	}
	return f, err
}

// await waits until the agent's facts are as wanted.
func (p *proxy) await(t *testing.T, what string, is func(facts) bool) facts {
	t.Helper()
	var f facts
	live.Eventually(t, func() error {
		select {
		case <-p.exited:
			t.Fatalf("pilot-agent ended: %v\n%s", p.err, p.log)
		default:
		}
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
	live.Eventually(t, func() error {
		select {
		case <-p.exited:
			t.Fatalf("pilot-agent ended: %v\n%s", p.err, p.log)
		default:
		}
		code, body, err := call(http.MethodGet, "http://"+p.ip+":15021/healthz/ready")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
}

// write puts a file into the proxy's folder whole, as a careful program does.
func (p *proxy) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// leftovers are what is in the folder of shared memory for a base id.
func leftovers(baseID int) []string {
	var out []string
	for _, pattern := range []string{"/dev/shm/envoy_shared_memory_%d0", "/dev/shm/fairway_base_id_%d"} {
		if name := fmt.Sprintf(pattern, baseID); exists(name) {
			out = append(out, name)
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// metric reads a sample of the merged metrics by its name and labels as they stand there.
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
