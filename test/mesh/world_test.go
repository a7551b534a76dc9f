package mesh

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fairway/test/envoy/live"
	"fairway/test/netns"
	"fairway/test/rig"
)

var (
	agent     = rig.Program{Name: "pilot-agent"}
	discovery = rig.Program{Name: "pilot-discovery"}
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &agent, &discovery)) }

// proxyUser is who proxies run as: interception lets that user's connections pass.
const proxyUser = 1337

// Addresses outside of workloads: of the control plane, of a client that is in no mesh, and of a server that has a certificate of the mesh but not the right one.
const (
	planeIP    = "10.0.0.1"
	strangerIP = "10.0.0.9"
	impostorIP = "10.0.0.8"
)

// The workloads, each with a network of its own.
var hosts = []struct{ name, account, net string }{{"a", "web", "10.0.1"}, {"b", "shop", "10.0.2"}, {"gw", "edge", "10.0.3"}}

// cell is how a mesh is intercepted.
type cell struct{ backend, mode string }

func (c cell) String() string { return c.backend + " " + c.mode }

// world is a mesh.
type world struct {
	cell
	dir     string // of rules, root and tokens
	outside *netns.Namespace
	spaces  map[string]*netns.Namespace
	tokens  map[string]string // by service account
	plane   *rig.Process
	agents  map[string]*rig.Process
	envoy   string
}

// newWorld starts everything; applications are the caller's.
func newWorld(t *testing.T, c cell) *world {
	t.Helper()
	w := &world{cell: c, dir: rig.Folder(t), spaces: map[string]*netns.Namespace{}, tokens: map[string]string{}, agents: map[string]*rig.Process{}}
	w.envoy = w.shareEnvoy(t)
	w.wire(t)
	w.startPlane(t)
	for _, h := range hosts {
		if h.name != "gw" {
			w.intercept(t, h.name)
		}
		w.startAgent(t, h.name, h.account, h.net+".2")
	}
	for name := range w.agents {
		w.awaitReady(t, name)
	}
	return w
}

// shareEnvoy puts Envoy where its user may find it.
func (w *world) shareEnvoy(t *testing.T) string {
	t.Helper()
	original, shared := live.NeedEnvoy(t), filepath.Join(w.dir, "envoy")
	if os.Link(original, shared) == nil {
		return shared
	}
	content, err := os.ReadFile(original)
	if err == nil {
		err = os.WriteFile(shared, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

// wire makes the namespaces: every workload hangs on a router, where all else is.
func (w *world) wire(t *testing.T) {
	t.Helper()
	w.outside = netns.New(t)
	for i, h := range hosts {
		n := netns.New(t)
		w.spaces[h.name] = n
		w.outside.Wire(t, func(l netns.Links) {
			l.Cable(h.name, "eth0", n)
			l.Up(h.name, h.net+".1/24", fmt.Sprintf("fd00:%d::1/64", i+1))
		})
		n.Wire(t, func(l netns.Links) {
			l.Up("lo", "::6/128")
			l.Up("eth0", h.net+".2/24", fmt.Sprintf("fd00:%d::2/64", i+1))
			l.Route("0.0.0.0/0", h.net+".1")
			l.Route("::/0", fmt.Sprintf("fd00:%d::1", i+1))
		})
	}
	w.outside.Wire(t, func(l netns.Links) {
		l.Up("lo", planeIP+"/32", strangerIP+"/32", impostorIP+"/32")
		l.Forward()
	})
	live.Eventually(t, func() (err error) { // cables carry when both ends have been seen plugged in
		for _, h := range hosts {
			w.outside.Do(t, func() {
				var c net.Conn
				if c, err = net.DialTimeout("tcp", h.net+".2:1", live.Bound); err == nil {
					c.Close()
				}
			})
			if err == nil || !strings.Contains(err.Error(), "refused") {
				return fmt.Errorf("%s: %w", h.name, err)
			}
		}
		return nil
	})
}

// startPlane makes root and join tokens as an administrator does, and starts the control plane.
func (w *world) startPlane(t *testing.T) {
	t.Helper()
	state := filepath.Join(w.dir, "ca")
	for _, account := range []string{"web", "shop", "edge", "stranger", "impostor", "late"} {
		c := exec.Command(discovery.Path(t), "token", "create", "-n", "default", "--serviceAccount", account, "--caStateDir", state)
		c.Stderr = os.Stderr
		token, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		w.tokens[account] = strings.TrimSpace(string(token))
	}
	rig.Write(t, w.dir, "rules/mesh.yaml", []byte(rules))
	w.plane = rig.Launch(t, rig.Command{
		Name: "pilot-discovery", Path: discovery.Path(t), Dir: w.dir, In: w.outside,
		Args: []string{"discovery", "--configDir", filepath.Join(w.dir, "rules"), "--caStateDir", state, "--grpcAddr", "", "--secureGRPCAddr", planeIP + ":15012",
			"--httpAddr", planeIP + ":8080", "--monitoringAddr", "", "--shutdownDuration", "10ms"},
	})
	w.await(t, w.plane, w.outside, "http://"+planeIP+":8080/ready")
}

// await waits until a page of a process says that all is well.
func (w *world) await(t *testing.T, p *rig.Process, in *netns.Namespace, page string) {
	t.Helper()
	live.Eventually(t, func() error {
		p.Running(t)
		code, body, err := rig.Call(http.MethodGet, page, dialer{in, ""}.DialContext)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", page, code, body)
		}
		return err
	})
}

// intercept has the kernel of a workload hand its connections to the proxy, as the init container of a pod does.
func (w *world) intercept(t *testing.T, name string) {
	t.Helper()
	c := exec.Command(agent.Path(t), "istio-iptables", "--backend", w.backend, "-m", w.mode, "-i", "*", "-b", "*", "-d", "15090,15021,15020",
		"--network-namespace", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.spaces[name].File.Fd()))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("intercept %s: %v\n%s", name, err, out)
	}
	if !strings.Contains(string(out), "connections are intercepted, by "+w.backend) {
		t.Errorf("istio-iptables says %q", out)
	}
}

// startAgent starts a workload's agent as its user. A transparent Envoy keeps the one capability that it needs.
func (w *world) startAgent(t *testing.T, name, account, ip string) {
	t.Helper()
	dir := filepath.Join(w.dir, name)
	root, err := os.ReadFile(filepath.Join(w.dir, "ca", "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	rig.Write(t, dir, "var/run/secrets/istio/root-cert.pem", root)
	rig.Write(t, dir, "var/run/secrets/tokens/istio-token", []byte(w.tokens[account]))
	kind, mode, labels := "sidecar", w.mode, "app=%q\n"
	if name == "gw" {
		kind, mode, labels = "router", "NONE", "app=%q\nistio=\"gateway\"\n"
	}
	rig.Write(t, dir, "etc/istio/pod/labels", fmt.Appendf(nil, labels, name))
	rig.Give(t, proxyUser, dir)
	var keeps []uintptr
	if mode == "TPROXY" {
		keeps = []uintptr{unix.CAP_NET_ADMIN}
	}
	w.agents[name] = rig.Launch(t, rig.Command{
		Name: name, Path: agent.Path(t), Dir: dir, In: w.spaces[name], User: proxyUser, Ambient: keeps,
		Args: []string{"proxy", kind, "--discoveryAddress", planeIP + ":15012", "--envoy", w.envoy, "--concurrency", "1"},
		Env: []string{"POD_NAME=" + name, "POD_NAMESPACE=default", "SERVICE_ACCOUNT=" + account, "TRUST_DOMAIN=cluster.local", "INSTANCE_IP=" + ip,
			"ISTIO_META_INTERCEPTION_MODE=" + mode, "ISTIOD_SAN=istiod.istio-system.svc", "MINIMUM_DRAIN_DURATION=0s"},
	})
}

// awaitReady waits until the proxy says so at the port that a kubelet asks.
func (w *world) awaitReady(t *testing.T, name string) {
	t.Helper()
	ip := ""
	for _, h := range hosts {
		if h.name == name {
			ip = h.net + ".2"
		}
	}
	w.await(t, w.agents[name], w.outside, "http://"+ip+":15021/healthz/ready")
}
