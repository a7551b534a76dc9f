package mixed

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/eurekaserver"
	"fairway/test/rig"
)

var (
	discovery = rig.Program{Name: "pilot-discovery"}
	agent     = rig.Program{Name: "pilot-agent"}
	ctl       = rig.Program{Name: "pilotctl"}
	programs  = []*rig.Program{&discovery, &agent, &ctl}
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, programs...)) }

const (
	host  = "orders.shop.svc.cluster.local"
	route = "outbound|80||" + host
	vip   = "10.250.0.80" // of the Service
)

// world is the four registries, a control plane that reads them, and one sidecar. All of it is in a network namespace.
type world struct {
	t          *testing.T
	dir        string
	kubernetes *kubernetes
	consul     consul
	eureka     eureka
	files      *files
	all        []registry

	plane, sidecar     *rig.Process
	kubeconfig         string
	grpc, pages, admin uint16
	monitoring         uint16
	running            map[string]*backend // by name
}

// start starts everything except the sidecar, which has nothing to do yet.
func start(t *testing.T) *world {
	t.Helper()
	live.Redirect(t, 15001, 15006)
	w := &world{
		t: t, dir: rig.Folder(t), grpc: rig.FreePort(t), pages: rig.FreePort(t), monitoring: rig.FreePort(t), admin: rig.FreePort(t),
		running: map[string]*backend{},
	}
	w.eureka = eureka{eurekaserver.Start(t, eurekaserver.Options{})}
	w.consul = consul{consulserver.Start(t, consulserver.Options{})}
	c := cluster.Start(t)
	w.kubernetes = &kubernetes{c, c.Gate(t)}
	w.files = &files{dir: filepath.Join(w.dir, "rules")}
	w.all = []registry{w.kubernetes, w.consul, w.eureka, w.files}
	c.Define(t, "virtualservices.networking.istio.io")
	c.Apply(t, shop)
	w.kubeconfig = c.Kubeconfig(t, w.kubernetes.gate, "plane", "system:masters")
	rig.Write(t, w.dir, "registries.yaml", fmt.Appendf(nil, `
registries:
- name: dc1
  wait: 1s
  consul:
    urls: [%s]
    host: "{name}.shop.svc.cluster.local"
    namespace: shop
    protocol: HTTP
    port: 80
    keepMissing: 10s
- name: main
  wait: 1s
  eureka:
    urls: [%s]
    refresh: 200ms
    host: "{name}.shop.svc.cluster.local"
    namespace: shop
    protocol: HTTP
    port: 80
`, w.consul.URL(), w.eureka.URL()))
	return w
}

// startPlane starts the control plane, and returns once it serves.
func (w *world) startPlane(t testing.TB) {
	t.Helper()
	local := func(port uint16) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	w.plane = rig.ControlPlane{
		Command: rig.Command{Path: discovery.Path(t), Dir: w.dir, Args: []string{
			"--clusterID", "east", "--kubeconfig", w.kubeconfig, "--configDir", w.files.dir,
			"--registriesConfig", filepath.Join(w.dir, "registries.yaml"), "--clusterStateDir", filepath.Join(w.dir, "state"),
		}},
		GRPC: local(w.grpc), HTTP: local(w.pages), Monitoring: local(w.monitoring),
	}.Launch(t)
}

func (w *world) page(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", w.pages, path) }

// sidecarIP is the caller's own.
const sidecarIP = "10.3.9.1"

// startSidecar starts the caller's sidecar, and returns once it serves.
func (w *world) startSidecar(t testing.TB) {
	t.Helper()
	w.sidecar = rig.Workload{
		Command: rig.Command{
			Name: "caller", Path: agent.Path(t), Dir: filepath.Join(w.dir, "caller"), Args: []string{"--adminPort", fmt.Sprint(w.admin)},
		},
		Namespace: "shop", IP: sidecarIP, Mode: "REDIRECT", Discovery: fmt.Sprintf("127.0.0.1:%d", w.grpc), Envoy: live.NeedEnvoy(t),
		Threads: 2,
	}.Launch(t)
	awaitPage(t, w.sidecar, "http://"+sidecarIP+":15021/healthz/ready")
}

func awaitPage(t testing.TB, p *rig.Process, page string) {
	t.Helper()
	rig.Eventually(t, func() error {
		p.Running(t)
		_, err := rig.Page(page)
		return err
	})
}

// hosts are the addresses that the sidecar's Envoy sends the service's requests to.
func (w *world) hosts() ([]string, error) {
	body, err := rig.Page(fmt.Sprintf("http://127.0.0.1:%d/clusters", w.admin))
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, route+"::")
		if at, _, is := strings.Cut(rest, "::health_flags::"); ok && is {
			ip, _, err := net.SplitHostPort(at)
			if err != nil {
				return nil, err
			}
			out = append(out, ip)
		}
	}
	slices.Sort(out)
	return out, nil
}

// awaitHost waits until the Envoy has an instance, or has it no more.
func (w *world) awaitHost(t testing.TB, i instance, there bool) {
	t.Helper()
	rig.Eventually(t, func() error {
		all, err := w.hosts()
		if err == nil && slices.Contains(all, i.ip) != there {
			err = fmt.Errorf("of %s (want there: %t) Envoy has %v", i.name, there, all)
		}
		return err
	})
}

// backend is an instance that runs.
type backend struct {
	instance
	server *http.Server
	done   chan struct{}
}

// run starts an instance that no registry knows yet. It runs until it is ended, or the world's test is over.
func (w *world) run(i instance) {
	t := w.t
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", i.ip, backing))
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{instance: i, done: make(chan struct{}), server: &http.Server{
		ReadHeaderTimeout: rig.Bound,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("x-server", i.name)
			fmt.Fprintf(rw, `{"Server":%q}`, i.name)
		}),
	}}
	go func() {
		defer close(b.done)
		_ = b.server.Serve(l)
	}()
	t.Cleanup(func() { b.server.Close(); <-b.done })
	w.running[i.name] = b
}

// end stops an instance: it closes its port, and then idle connections.
func (w *world) end(t testing.TB, i instance) {
	t.Helper()
	b := w.running[i.name]
	delete(w.running, i.name)
	if err := b.server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-b.done
}
