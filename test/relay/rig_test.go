package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairway/build/envoybin"
	"fairway/internal/agent/relay"
	"fairway/internal/app"
	"fairway/internal/identity"
	"fairway/test/envoy/live"
	"fairway/test/plane"
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

// world is a control plane that can go away, and one workload with its agent.
type world struct {
	*live.Mesh
	t       *testing.T
	options app.Options
	plane   *plane.Plane // nil: away
	rules   string
	dir     string // the agent's
	admin   int

	command *exec.Cmd
	exited  chan struct{}
}

func newWorld(t *testing.T) *world {
	w := &world{Mesh: live.Start(t, live.Options{}), t: t, options: plane.Options(), dir: t.TempDir(), admin: freePort(t)}
	w.options.SecureAddr, w.options.GRPCAddr = w.Addr("istiod", 15012), w.Addr("istiod", 15010)
	w.options.Identity.CA.Plugged, w.options.Identity.CA.State = "", filepath.Join(t.TempDir(), "ca")
	return w
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start starts a control plane with the rules.
func (w *world) start() {
	w.t.Helper()
	w.plane = plane.Start(w.t, w.options)
	w.plane.Apply(w.t, "rules", w.rules)
}

// away stops the control plane.
func (w *world) away() {
	w.t.Helper()
	if err := w.plane.Stop(); err != nil {
		w.t.Error(err)
	}
	w.plane = nil
}

// introduce gives the workload what it needs to be believed.
func (w *world) introduce() {
	w.t.Helper()
	token, err := w.plane.Discovery.JoinTokens().Create(identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "web"}, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	w.file("var/run/secrets/tokens/istio-token", []byte(token))
	w.file("var/run/secrets/istio/root-cert.pem", w.plane.Discovery.Authority().Roots())
}

func (w *world) file(name string, content []byte) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// launch starts the agent.
func (w *world) launch(args ...string) {
	w.t.Helper()
	path, err := program()
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := os.CreateTemp(w.t.TempDir(), "web")
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	w.file("etc/istio/pod/labels", []byte("app=\"web\"\n"))
	c := exec.Command(path, append([]string{"proxy", "sidecar", "--envoy", live.NeedEnvoy(w.t), "--adminPort", strconv.Itoa(w.admin),
		"--concurrency", "1", "--drainDuration", "1s", "--parentShutdownDuration", "2s"}, args...)...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "POD_NAME=web", "POD_NAMESPACE=default", "SERVICE_ACCOUNT=web", "INSTANCE_IP="+w.IP("web"), "ISTIO_META_INTERCEPTION_MODE=NONE",
		"MINIMUM_DRAIN_DURATION=100ms")
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = c.Wait(); close(exited) }() // how it ended is in its log
	w.command, w.exited = c, exited
	w.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.Process.Signal(syscall.SIGINT)
		<-exited
		if w.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			w.t.Logf("--- pilot-agent\n%s", text[max(0, len(text)-6000):])
		}
	})
}

// stop ends the agent and its Envoy.
func (w *world) stop() {
	_ = w.command.Process.Signal(syscall.SIGTERM)
	_ = w.command.Process.Signal(syscall.SIGINT)
	<-w.exited
}

func (w *world) call(method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), live.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.Addr("web", 15020)+path, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, resp.Status, body)
	}
	return string(body), err
}

// facts is a part of /debug/agent.
type facts struct {
	Ready   bool
	Reasons []string
	Envoys  struct {
		Serving           *struct{ Epoch, Pid int }
		Starts, Handovers int
	}
	Relay relay.Status
}

// await waits until the agent's facts are as wanted.
func (w *world) await(what string, is func(facts) bool) (f facts) {
	w.t.Helper()
	live.Eventually(w.t, func() error {
		body, err := w.call(http.MethodGet, "/debug/agent")
		f = facts{}
		if err == nil {
			err = json.Unmarshal([]byte(body), &f)
		}
		if err == nil && !is(f) {
			err = fmt.Errorf("not yet %s: %+v", what, f)
		}
		return err
	})
	return f
}

func connected(f facts) bool {
	for _, s := range f.Relay.Sessions {
		if !s.Connected {
			return false
		}
	}
	return len(f.Relay.Sessions) > 0
}

func disconnected(f facts) bool {
	for _, s := range f.Relay.Sessions {
		if s.Connected {
			return false
		}
	}
	return len(f.Relay.Sessions) > 0
}

// serves waits until the workload reaches a service through its Envoy.
func (w *world) serves(host string) {
	w.t.Helper()
	live.Eventually(w.t, func() error {
		r, err := live.Try(live.Request{To: w.Addr("web", 8000), Host: host})
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", host, r.Status, r.Body)
		}
		return err
	})
}

// sent is how many resources the control plane has sent, removals too.
func (w *world) sent() (sum float64) {
	w.t.Helper()
	resp, err := http.Get(w.plane.URL("/metrics"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "fairway_xds_sent_resources_total{") {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' '):]), 64)
		if err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
		sum += v
	}
	return sum
}

// memory is what the agent takes, as the system counts it: all that is resident, and of that what is its own.
func (w *world) memory() string {
	w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.command.Process.Pid))
	if err != nil {
		w.t.Fatal(err)
	}
	var kb [2]float64
	for i, name := range []string{"VmRSS:", "RssAnon:"} {
		_, rest, _ := strings.Cut(string(text), name)
		if _, err := fmt.Sscan(rest, &kb[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	return fmt.Sprintf("%.1f MB (%.1f MB of its own)", kb[0]/1024, kb[1]/1024)
}
