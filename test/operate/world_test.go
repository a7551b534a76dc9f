package operate

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

const groups = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: %[1]s, namespace: default}
spec:
  metadata: {labels: {app: %[2]s, machine: %[1]s}}
  template: {serviceAccount: %[2]s, ports: {http: 8080}}
  probe: {exec: {command: ["true"]}, periodSeconds: 1}
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
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %[1]s, namespace: default}
spec:
  workloadSelector: {labels: {machine: %[1]s}}
  ingress:
  - {port: {number: 8080, name: http, protocol: HTTP}, bind: %[2]s, captureMode: NONE, defaultEndpoint: "127.0.0.1:%[3]d"}
  egress:
  - {port: {number: 8000, name: http, protocol: HTTP}, bind: %[4]s, captureMode: NONE, hosts: ["~/*"]}
`

const step = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: default}
spec:
  hosts: [shop.test]
  http:
  - route: [{destination: {host: shop.test}}]
    headers: {response: {set: {step: "%d"}}}
`

// world is a control plane with its folders, and the machines of its mesh.
type world struct {
	*live.Mesh // for addresses and backends
	dir        string
	page       string // address of the debug pages
	plane      *rig.Process
	machines   map[string]*machine
	steps      int
	life       string // of certificates
}

// machine is one, with the folder that pilotctl wrote for it.
type machine struct {
	*rig.Process
	name, dir, admin string
}

func (w *world) startPlane(t *testing.T, r release) {
	t.Helper()
	state := filepath.Join(w.dir, "state")
	w.plane = rig.ControlPlane{
		Command: rig.Command{Name: r.name + "-discovery", Path: r.discovery, Dir: w.dir, Args: []string{
			"--registries", "", "--configDir", filepath.Join(w.dir, "rules"), "--meshConfig", "", "--networksConfig", "",
			"--caStateDir", filepath.Join(state, "ca"), "--clusterStateDir", filepath.Join(state, "kept"),
		}},
		Secure: w.Addr("istiod", 15012), HTTP: w.page,
	}.Launch(t)
}

// configure has a release's pilotctl write the machine's folder, and gives its WorkloadEntry to the control plane.
func (w *world) configure(t *testing.T, r release, name, app string) {
	t.Helper()
	m := &machine{name: name, dir: filepath.Join(w.dir, name), admin: fmt.Sprint(rig.FreePort(t))}
	out, err := exec.CommandContext(t.Context(), r.ctl, "workload", "config",
		"-f", rig.Write(t, w.dir, name+"-group.yaml", fmt.Appendf(nil, groups, name, app)), "--name", name, "--address", w.IP(name),
		"--output", m.dir, "--directory", m.dir, "--caStateDir", filepath.Join(w.dir, "state", "ca"),
		"--discoveryAddress", w.Addr("istiod", 15012), "--interception", "NONE", "--captureDNS=false", "--envoy", live.NeedEnvoy(t),
	).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	entry, err := os.ReadFile(filepath.Join(m.dir, "workload-entry.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rig.Write(t, filepath.Join(w.dir, "rules"), name+"-entry.yaml", entry)
	w.machines[name] = m
}

// start starts a release's agent as the machine's unit does, and waits until its proxy is ready.
func (w *world) start(t *testing.T, r release, name string) {
	t.Helper()
	m := w.machines[name]
	c := rig.Unit(t, m.dir)
	c.Name, c.Path = r.name+"-"+name, r.agent
	c.Args = append(c.Args, "--adminPort", m.admin, "--concurrency", "1")
	c.Env = append(c.Env, "MINIMUM_DRAIN_DURATION=2s", "SECRET_TTL="+w.life)
	m.Process = rig.Launch(t, c)
	rig.Eventually(t, func() error {
		m.Running(t)
		_, err := rig.Page("http://" + w.Addr(name, 15020) + "/healthz/ready")
		return err
	})
}

// follows changes a rule, and returns once real requests follow it and both releases' pilotctl show that all proxies have it.
func (w *world) follows(t *testing.T, what string, both ...release) {
	t.Helper()
	w.steps++
	rig.Write(t, filepath.Join(w.dir, "rules"), "step.yaml", fmt.Appendf(nil, step, w.steps))
	rig.Eventually(t, func() error {
		r := live.Send(t, live.Request{To: w.Addr("front", 8000), Host: "shop.test"})
		if got := r.Header.Get("step"); r.Status != http.StatusOK || got != fmt.Sprint(w.steps) {
			return fmt.Errorf("%s: %d, the rule's header is %q, want %d", what, r.Status, got, w.steps)
		}
		return nil
	})
	for _, r := range both {
		for _, words := range [][]string{{"proxy-status"}, {"wait", "virtualservice/default/shop"}, {"problems"}} {
			rig.Eventually(t, func() error { // proxies may still be connecting to the control plane that has just started
				out, err := exec.CommandContext(t.Context(), r.ctl, append(words, "--address", "http://"+w.page)...).CombinedOutput()
				if err != nil || words[0] == "proxy-status" && strings.Count(string(out), "   sidecar ") != len(w.machines) {
					return fmt.Errorf("%s: pilotctl %s of the %s release: %w\n%s", what, words[0], r.name, err, out)
				}
				return nil
			})
		}
	}
}

func newWorld(t *testing.T, r release, life string) *world {
	w := &world{Mesh: live.Start(t, live.Options{}), dir: t.TempDir(), machines: map[string]*machine{}, life: life}
	w.page = fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	folder := filepath.Join(w.dir, "rules")
	rig.Write(t, folder, "rules.yaml", fmt.Appendf(nil, rules, w.IP("front")))
	for _, name := range []string{"shop-a", "shop-b"} {
		port := w.BackendOnLocalhost(t, name)
		rig.Write(t, folder, name+".yaml", fmt.Appendf(nil, ingress, name, w.IP(name), port, w.IP(name+"-egress")))
	}
	w.startPlane(t, r)
	for name, app := range map[string]string{"shop-a": "shop", "shop-b": "shop", "front": "front"} {
		w.configure(t, r, name, app)
		w.start(t, r, name)
	}
	return w
}
