package relay

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/relay"
	"fairway/internal/app"
	"fairway/internal/identity"
	"fairway/test/envoy/live"
	"fairway/test/plane"
	"fairway/test/rig"
)

// agent is the program that all tests run.
var agent = rig.Program{Name: "pilot-agent"}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &agent)) }

// world is a control plane that can go away, and one workload with its agent.
type world struct {
	*live.Mesh
	t       *testing.T
	name    string // of the workload: its address, service account and label app
	role    string
	options app.Options
	plane   *plane.Plane // nil: away
	rules   string
	dir     string // the agent's
	admin   uint16

	agent *rig.Process
}

const meshWide = "defaultConfig: {proxyMetadata: {FAIRWAY_ALLOW_LOCAL_ENDPOINTS: default}}\n"

// vouched returns the rules that confirm the labels of a workload of this mesh: its name is that of its service account and of its label
// app.
func (w *world) vouched(name string) string {
	w.t.Helper()
	return rig.Text(w.t, "vouched.yaml", rig.Pairs("name", name))
}

func newWorld(t *testing.T) *world {
	w := &world{
		Mesh:    live.Start(t, live.Options{}),
		t:       t,
		name:    "web",
		role:    "sidecar",
		options: plane.Options(),
		dir:     t.TempDir(),
		admin:   rig.FreePort(t),
	}
	w.options.SecureAddr, w.options.GRPCAddr = w.Addr("istiod", 15012), w.Addr("istiod", 15010)
	// every workload of this mesh lives on a loopback address
	w.options.MeshConfig = rig.Write(t, t.TempDir(), "mesh.yaml", []byte(meshWide))
	w.options.Identity.CA.Plugged, w.options.Identity.CA.State = "", filepath.Join(t.TempDir(), "ca")
	return w
}

// another is one more workload of the same mesh.
func (w *world) another(name, role string) *world {
	other := *w
	other.name, other.role, other.dir, other.admin = name, role, w.t.TempDir(), rig.FreePort(w.t)
	return &other
}

// start starts a control plane with the rules.
func (w *world) start() {
	w.t.Helper()
	w.plane = plane.Start(w.t, w.options, plane.Holding(w.t, "rules", w.rules))
}

// away stops the control plane.
func (w *world) away() {
	w.t.Helper()
	if err := w.plane.Stop(); err != nil {
		w.t.Error(err)
	}
	w.plane = nil
}

// introduce gives the workload the files that prove its identity.
func (w *world) introduce() {
	w.t.Helper()
	token, err := w.plane.Discovery.JoinTokens().Create(
		identity.ID{TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: w.name}, time.Hour)
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

// launch starts the agent, with the address of a control plane.
func (w *world) launch(discovery string, args ...string) {
	w.t.Helper()
	w.agent = rig.Workload{
		Command: rig.Command{
			Name: w.name, Path: agent.Path(w.t), Dir: w.dir,
			Args: append([]string{"--adminPort", fmt.Sprint(w.admin), "--drainDuration", "1s", "--parentShutdownDuration", "2s"}, args...),
		},
		Role: w.role, Account: w.name, IP: w.IP(w.name), Discovery: discovery, Envoy: live.NeedEnvoy(w.t), Drain: "100ms",
	}.Launch(w.t)
}

// stop ends the agent and its Envoy.
func (w *world) stop() { w.agent.Stop() }

func (w *world) page(path string) string { return "http://" + w.Addr(w.name, 15020) + path }

// facts is a part of /debug/agent.
type facts struct {
	Ready   bool
	Reasons []string
	Envoys  struct {
		Serving           *struct{ Epoch, Pid int }
		Starts, Handovers int
	}
	Relay   relay.Status
	Patches []string
	Refused map[string]string // patches, and why
}

// await waits until the agent's facts are as wanted.
func (w *world) await(what string, is func(facts) bool) (f facts) {
	w.t.Helper()
	rig.Eventually(w.t, func() error {
		f = facts{}
		err := rig.Read(w.page("/debug/agent"), &f)
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
	rig.Eventually(w.t, func() error {
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

// memory is what the agent takes, as text.
func (w *world) memory() string { return w.agent.Memory(w.t).String() }
