package live

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"fairway/internal/agent/exposition"
	"fairway/internal/agent/secrets"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/envoy/caller"
	"fairway/internal/mesh"
	"fairway/test/rig"
)

// Node says which proxy an Envoy is. Name is its workload's and, as an address of the mesh, the proxy's own.
type Node struct {
	Name      string
	Namespace string            // "default" when empty
	Labels    map[string]string // app: <name> when nil
	Router    bool              // a gateway
	Locality  mesh.Locality
	Network   string // that it says it is of; empty: of none
	Idle      string // after how long without a byte connections to its workload end; empty: Envoy's hour
	Discovers bool   // its Envoy goes by the zones of the workload's own peers
	// Redirected says that traffic is redirected to the proxy. Otherwise nothing is intercepted.
	Redirected bool
	Sotw       bool // the state-of-the-world protocol in place of the incremental one
	// IP is the proxy's own address; empty: the mesh's address of Name.
	IP string
	// Drain is how long connections stay that came in by a listener, or a filter chain, that is gone; each answer asks them to go
	// meanwhile, as the agent would have it. Zero: Envoy's own ten minutes, and few answers ask.
	Drain time.Duration
	// Identity is the proxy's certificate; the zero value: it has none.
	Identity secrets.Files
	// Workload is the workload that the proxy announces to the servers that it calls, as its agent would make it do.
	Workload exposition.Workload
}

// Envoy is a running proxy.
type Envoy struct {
	Name    string
	admin   string // http://address:port
	logFile string
	command *exec.Cmd
	exited  chan struct{} // closed when the process has ended
	err     error         // of the process, once exited is closed
}

// Proxy starts an Envoy and waits until it is live and has all that is in force. It is stopped when the test ends.
func (m *Mesh) Proxy(t testing.TB, n Node) *Envoy {
	t.Helper()
	if n.IP == "" {
		n.IP = m.IP(n.Name)
	}
	if n.Labels == nil {
		n.Labels = map[string]string{"app": n.Name}
	}
	e := &Envoy{
		Name: n.Name, admin: "http://" + m.Addr(n.Name+"-admin", adminPort),
		logFile: filepath.Join(m.dir, n.Name+".log"), exited: make(chan struct{}),
	}
	file := filepath.Join(m.dir, n.Name+".json")
	if err := os.WriteFile(file, m.bootstrap(t, n), 0o600); err != nil {
		t.Fatal(err)
	}
	e.start(t, m.envoy, file, n)
	t.Cleanup(func() {
		e.check(t, m)
		e.Stop()
	})
	m.mu.Lock()
	m.proxies = append(m.proxies, e)
	m.mu.Unlock()
	e.awaitReady(t, m)
	m.Settle(t)
	return e
}

func (m *Mesh) bootstrap(t testing.TB, n Node) []byte {
	t.Helper()
	if n.Namespace == "" {
		n.Namespace = "default"
	}
	labels := map[string]any{}
	for k, v := range n.Labels {
		labels[k] = v
	}
	kind, mode := mesh.Sidecar, "NONE"
	if n.Router {
		kind = mesh.Router
	}
	if n.Redirected {
		mode = "REDIRECT"
	}
	metadata := map[string]any{"INTERCEPTION_MODE": mode, "NAMESPACE": n.Namespace, "LABELS": labels}
	if n.Network != "" {
		metadata["NETWORK"] = n.Network
	}
	if n.Idle != "" {
		metadata["IDLE_TIMEOUT"] = n.Idle
	}
	if n.Discovers {
		metadata[mesh.SelfDiscovery] = "true"
	}
	socket := ""
	if n.Identity != (secrets.Files{}) {
		socket = serveSecrets(t, n.Identity)
	}
	b, err := bootstrap.Build(bootstrap.Params{
		SecretsSocket: socket,
		Stats:         bootstrap.StatsMatcher{Regexps: []string{bootstrap.Everything}}, // tests look at any of them
		Node: bootstrap.Node{
			Type:      kind,
			IP:        n.IP,
			Name:      n.Name,
			Namespace: n.Namespace,
			Domain:    n.Namespace + ".svc.cluster.local",
			Cluster:   n.Name + "." + n.Namespace,
			Locality:  n.Locality,
			Metadata:  metadata,
		},
		Discovery: bootstrap.HostPort{Host: m.IP("plane"), Port: 15010},
		Admin:     bootstrap.HostPort{Host: m.IP(n.Name + "-admin"), Port: adminPort},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.Sotw {
		b.DynamicResources.AdsConfig.ApiType = corev3.ApiConfigSource_GRPC
	}
	text, err := bootstrap.JSON(b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (e *Envoy) start(t testing.TB, binary, file string, n Node) {
	t.Helper()
	arguments := []string{
		"-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "--log-path", e.logFile,
		"--file-flush-interval-msec", "100", // tests read access logs
	}
	if n.Drain > 0 {
		arguments = append(arguments, "--drain-time-s", strconv.Itoa(int(n.Drain/time.Second)), "--drain-strategy", "immediate")
	}
	e.command = exec.Command(binary, arguments...)
	e.command.Env = append(os.Environ(), caller.Variable+"="+n.Workload.Claim().String())
	e.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	e.command.Stderr = &stderr
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := e.command.Wait(); err != nil {
			e.err = fmt.Errorf("%w: %s", err, stderr.String())
		}
		close(e.exited)
	}()
}

// Stop ends the process and waits for it.
func (e *Envoy) Stop() {
	_ = e.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.exited:
	case <-time.After(5 * time.Second):
		_ = e.command.Process.Kill()
		<-e.exited
	}
}

func (e *Envoy) awaitReady(t testing.TB, m *Mesh) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.Bound)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if e.ready(ctx) {
				return
			}
		case <-e.exited:
			t.Fatalf("Envoy %s ended: %v\n%s", e.Name, e.err, m.Logs())
		case <-ctx.Done():
			t.Fatalf("Envoy %s is not live after %s\n%s%s", e.Name, rig.Bound, m.describe(), m.Logs())
		}
	}
}

func (e *Envoy) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.admin+"/ready", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Envoy is the proxy of a name; nil where none was started.
func (m *Mesh) Envoy(name string) *Envoy {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.proxies {
		if e.Name == name {
			return e
		}
	}
	return nil
}
