package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairway/internal/admin/page"
	"fairway/internal/app"
	"fairway/internal/ctl"
	"fairway/internal/mesh/code"
	"fairway/test/envoy/live"
	"fairway/test/plane"
	"fairway/test/rig"
)

var agent = rig.Program{Name: "pilot-agent"}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &agent)) }

// world is a control plane that machines reach at its secure address alone.
type world struct {
	*live.Mesh // for addresses and backends
	options    app.Options
	plane      *plane.Plane
	groups     string // file of WorkloadGroups
}

const groups = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: machine-a, namespace: default}
spec:
  metadata: {labels: {app: shop, machine: a}}
  template: {serviceAccount: shop, ports: {http: 8080}}
  probe: {exec: {command: [test, "!", -e, sick]}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: machine-b, namespace: default}
spec:
  metadata: {labels: {app: shop, machine: b}}
  template: {serviceAccount: shop, ports: {http: 8080}}
  probe: {httpGet: {host: 127.0.0.1, port: %[1]d, path: /health}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: front, namespace: default}
spec:
  metadata: {labels: {app: front}}
  template: {serviceAccount: front}
`

const rules = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop, namespace: default}
spec:
  hosts: [shop.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  workloadSelector: {labels: {app: shop}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: default}
spec: {mtls: {mode: STRICT}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: front, namespace: default}
spec:
  workloadSelector: {labels: {app: front}}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: %[1]s, captureMode: NONE, hosts: ["*/*"]}
`

const ingress = `
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: machine-%[1]s, namespace: default}
spec:
  workloadSelector: {labels: {machine: %[1]s}}
  ingress:
  - {port: {number: 8080, name: http, protocol: HTTP}, bind: %[2]s, captureMode: NONE, defaultEndpoint: "127.0.0.1:%[3]d"}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: %[4]s, captureMode: NONE, hosts: ["~/*"]}
`

func newWorld(t *testing.T, healthPort int) *world {
	w := &world{Mesh: live.Start(t, live.Options{}), options: plane.Options()}
	w.options.SecureAddr, w.options.GRPCAddr = w.Addr("istiod", 15012), ""
	w.options.Identity.CA.Plugged, w.options.Identity.CA.State = "", filepath.Join(t.TempDir(), "ca")
	w.options.HealthStart, w.options.HealthGrace = 0, 2*time.Second
	w.plane = plane.Start(t, w.options)
	w.groups = rig.Write(t, t.TempDir(), "groups.yaml", fmt.Appendf(nil, groups, healthPort))
	return w
}

// machine is one, with the folder that was written for it.
type machine struct {
	*rig.Process
	world *world
	name  string
	dir   string
}

// configure writes a machine's folder and gives its WorkloadEntry to the control plane.
func (w *world) configure(t *testing.T, name string) *machine {
	t.Helper()
	m := w.write(t, name)
	entry, err := os.ReadFile(filepath.Join(m.dir, "workload-entry.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.plane.Apply(t, name+"-entry.yaml", string(entry))
	return m
}

// write writes a machine's folder.
func (w *world) write(t *testing.T, name string, more ...string) *machine {
	t.Helper()
	m := &machine{world: w, name: name, dir: filepath.Join(t.TempDir(), "agent")}
	c, out := ctl.Command("test"), &bytes.Buffer{}
	c.SetOut(out)
	c.SetArgs(
		append(append([]string{"workload", "config"}, more...),
			"-f",
			w.groups,
			"--name",
			name,
			"--address",
			w.IP(name),
			"--output",
			m.dir,
			"--directory",
			m.dir,
			"--caStateDir",
			w.options.Identity.CA.State,
			"--discoveryAddress",
			w.options.SecureAddr,
			"--interception",
			"NONE",
			"--captureDNS=false",
			"--envoy",
			live.NeedEnvoy(t),
		),
	)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// start does what the unit says: its variables, its folder, its command.
func (m *machine) start(t *testing.T) {
	t.Helper()
	c := rig.Unit(t, m.dir)
	// The added flags and variable let several machines run on one, and shorten the test.
	c.Name, c.Path = m.name, agent.Path(t)
	c.Args = append(c.Args, "--adminPort", fmt.Sprint(rig.FreePort(t)), "--concurrency", "1")
	c.Env = append(c.Env, "MINIMUM_DRAIN_DURATION=2s")
	m.Process = rig.Launch(t, c)
	rig.Eventually(t, func() error {
		m.Running(t)
		code, body, err := rig.Call(http.MethodGet, "http://"+m.world.Addr(m.name, 15020)+"/healthz/ready", nil)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%s: %s", m.name, body)
		}
		return err
	})
}

// awaitHealth waits until the control plane knows the health that a machine's agent reported, and all proxies have it.
func (m *machine) awaitHealth(t *testing.T, healthy bool) {
	t.Helper()
	rig.Eventually(t, func() error {
		var said []page.WorkloadHealth
		if err := rig.Read(m.world.plane.URL("/debug/workloadz"), &said); err != nil {
			return err
		}
		for _, s := range said {
			if strings.Contains(s.ProxyID, "~"+m.world.IP(m.name)+"~") && s.Healthy == healthy && len(s.Entries) == 1 {
				return nil
			}
		}
		return fmt.Errorf("%s is not known to be healthy=%t: %+v", m.name, healthy, said)
	})
	m.world.plane.Settle(t)
}

// quiet waits until a backend gets no more requests while others do: requests under way have ended.
func quiet(t *testing.T, load *live.Load, b *live.Backend) {
	t.Helper()
	rig.Eventually(t, func() error {
		before := b.Count()
		load.Await(t, 20)
		if n := b.Count() - before; n != 0 {
			return fmt.Errorf("%s was asked %d times more", b.Name, n)
		}
		return nil
	})
}

// TestMachines: two machines join with only the files written for them, serve, leave the load assignment when their
// application fails or their agent stops, and come back; no request fails meanwhile.
func TestMachines(t *testing.T) {
	var sick atomic.Bool
	health := startHealth(t, &sick)
	w := newWorld(t, health)
	w.plane.Apply(t, "rules", fmt.Sprintf(rules, w.IP("front")))
	backends := map[string]*live.Backend{}
	for _, name := range []string{"a", "b"} {
		port := int(rig.FreePort(t))
		backends[name] = w.BackendAt(t, name, fmt.Sprintf("127.0.0.1:%d", port))
		w.plane.Apply(t, "ingress-"+name, fmt.Sprintf(ingress, name, w.IP("machine-"+name), port, w.IP(name+"-egress")))
	}
	a, b, front := w.configure(t, "machine-a"), w.configure(t, "machine-b"), w.configure(t, "front")
	for _, m := range []*machine{a, b, front} {
		m.start(t)
	}
	a.awaitHealth(t, true)
	b.awaitHealth(t, true)
	const kind = "kept"
	load := live.StartLoad(t, live.HTTPClients(kind, 4, live.Request{To: w.Addr("front", 8000), Host: "shop.test"}))
	load.AwaitFrom(t, kind, "a")
	load.AwaitFrom(t, kind, "b")

	mark := filepath.Join(a.dir, "sick")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a.awaitHealth(t, false)
	quiet(t, load, backends["a"])
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	a.awaitHealth(t, true)
	load.AwaitFrom(t, kind, "a")

	sick.Store(true)
	b.awaitHealth(t, false)
	quiet(t, load, backends["b"])
	sick.Store(false)
	b.awaitHealth(t, true)
	load.AwaitFrom(t, kind, "b")

	// An agent that is asked to stop says so first. The next one has no token any more: it goes on with the certificate.
	a.Signal(syscall.SIGTERM)
	a.awaitHealth(t, false)
	if code := a.Exit(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, a.Log)
	}
	quiet(t, load, backends["a"])
	if err := os.Remove(filepath.Join(a.dir, "istio-token")); err != nil {
		t.Fatal(err)
	}
	a.start(t)
	a.awaitHealth(t, true)
	load.AwaitFrom(t, kind, "a")
	load.Stop(t)

	var shown []page.ProxyCertificate
	if err := rig.Read(w.plane.URL("/debug/certz"), &shown); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(shown)
	if len(shown) != 3 || shown[0].By != "certificate" || !shown[0].Certificate.Valid || strings.Contains(string(text), "PRIVATE") {
		t.Errorf("certificates: %s", text)
	}
}

// startHealth serves /health, and returns its port.
func startHealth(t *testing.T, sick *atomic.Bool) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sick.Load() || r.URL.Path != "/health" {
			http.Error(w, "sick", http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// TestRegistered: machines join with a WorkloadGroup alone, which a file has. Clients reach one while its application is well, and not any
// more after it has failed or stopped; one that has gone leaves nothing behind.
func TestRegistered(t *testing.T) {
	health := startHealth(t, new(atomic.Bool))
	w := newWorld(t, health)
	text, err := os.ReadFile(w.groups)
	if err != nil {
		t.Fatal(err)
	}
	w.plane.Apply(t, "groups", string(text))
	w.plane.Apply(t, "rules", fmt.Sprintf(rules, w.IP("front")))
	backends, machines := map[string]*live.Backend{}, map[string]*machine{}
	for _, name := range []string{"a", "b"} {
		port := int(rig.FreePort(t))
		backends[name] = w.BackendAt(t, name, fmt.Sprintf("127.0.0.1:%d", port))
		w.plane.Apply(t, "ingress-"+name, fmt.Sprintf(ingress, name, w.IP("machine-"+name), port, w.IP(name+"-egress")))
		machines[name] = w.write(t, "machine-"+name, "--autoregister")
	}
	a, b := machines["a"], machines["b"]
	for _, m := range []*machine{a, b, w.write(t, "front", "--autoregister")} {
		m.start(t)
	}
	a.awaitHealth(t, true)
	b.awaitHealth(t, true)
	const kind = "kept"
	load := live.StartLoad(t, live.HTTPClients(kind, 4, live.Request{To: w.Addr("front", 8000), Host: "shop.test"}))
	load.AwaitFrom(t, kind, "a")
	load.AwaitFrom(t, kind, "b")

	mark := filepath.Join(a.dir, "sick")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	a.awaitHealth(t, false)
	quiet(t, load, backends["a"])
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	a.awaitHealth(t, true)
	load.AwaitFrom(t, kind, "a")

	a.Signal(syscall.SIGTERM)
	if code := a.Exit(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, a.Log)
	}
	quiet(t, load, backends["a"])
	rig.Eventually(t, func() error {
		_, body, err := rig.Call(http.MethodGet, w.plane.URL("/debug/endpointz"), nil)
		if err == nil && (strings.Contains(body, w.IP("machine-a")+":") || !strings.Contains(body, w.IP("machine-b"))) {
			err = fmt.Errorf("endpoints: %s", body)
		}
		return err
	})
	a.start(t)
	a.awaitHealth(t, true)
	load.AwaitFrom(t, kind, "a")
	load.Stop(t)
	for _, p := range w.plane.Discovery.Problems() {
		if p.Code == code.NotYet || p.Code == code.NotRegistered {
			t.Errorf("told of: %v", p)
		}
	}
}
