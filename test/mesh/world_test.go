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

// proxyUser is the user that runs proxies: interception lets that user's connections pass.
const proxyUser = 1337

// network is the addresses of a mesh, of one family.
type network struct {
	// Outside of workloads: of the control plane, of a client that is in no mesh, and of a server that has a
	// certificate of the mesh but not the right one.
	plane, stranger, impostor string
	// The workloads' clients find services at these addresses; no machine has them.
	service, fake string
	// any is all addresses, loopback the address from which proxies reach their own workload, mask the suffixes of
	// networks and hosts, way the route to all others.
	any, loopback, mask, host, way string
	// The workloads, each with a network of its own: its router and itself.
	hosts []host
}

type host struct{ name, account, router, ip string }

var four = network{
	plane: "10.0.0.1", stranger: "10.0.0.9", impostor: "10.0.0.8", service: "10.96.0.20", fake: "10.96.0.21",
	any: "0.0.0.0", loopback: "127.0.0.6", mask: "/24", host: "/32", way: "0.0.0.0/0",
	hosts: []host{{"a", "web", "10.0.1.1", "10.0.1.2"}, {"b", "shop", "10.0.2.1", "10.0.2.2"}, {"gw", "edge", "10.0.3.1", "10.0.3.2"}},
}

var six = network{
	plane:    "fd00::1",
	stranger: "fd00::9",
	impostor: "fd00::8",
	service:  "fd00:96::20",
	fake:     "fd00:96::21",
	any:      "::",
	loopback: "::6",
	mask:     "/64",
	host:     "/128",
	way:      "::/0",
	hosts: []host{
		{"a", "web", "fd00:1::1", "fd00:1::2"},
		{"b", "shop", "fd00:2::1", "fd00:2::2"},
		{"gw", "edge", "fd00:3::1", "fd00:3::2"},
	},
}

// ip is the address of a workload.
func (n network) ip(name string) string {
	for _, h := range n.hosts {
		if h.name == name {
			return h.ip
		}
	}
	panic("no workload " + name)
}

// at is an address with a port.
func at(ip, port string) string { return net.JoinHostPort(ip, port) }

// cell is how a mesh is intercepted, and what addresses it has.
type cell struct {
	backend, mode string
	network
	second *network // addresses that all have besides; nil: none
}

func (c cell) String() string {
	name := c.backend + " " + c.mode
	switch {
	case c.second != nil:
		name += " dual stack"
	case c.any == six.any:
		name += " IPv6"
	}
	return name
}

// networks are all that the mesh has.
func (c cell) networks() []network {
	if c.second == nil {
		return []network{c.network}
	}
	return []network{c.network, *c.second}
}

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

// newWorld starts everything; applications are the caller's. more are flags of the control plane, made once there are networks.
func newWorld(t *testing.T, c cell, more ...func(*world) []string) *world {
	t.Helper()
	w := &world{
		cell:   c,
		dir:    rig.Folder(t),
		spaces: map[string]*netns.Namespace{},
		tokens: map[string]string{},
		agents: map[string]*rig.Process{},
	}
	w.envoy = w.shareEnvoy(t)
	w.wire(t)
	var flags []string
	for _, of := range more {
		flags = append(flags, of(w)...)
	}
	w.startPlane(t, flags...)
	for _, h := range w.hosts {
		if h.name != "gw" {
			w.intercept(t, h.name)
		}
		w.startAgent(t, h.name, h.account, h.ip)
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

// wire makes the namespaces: every workload is connected to a router, which has all other programs.
func (w *world) wire(t *testing.T) {
	t.Helper()
	w.outside = netns.New(t)
	for _, h := range w.hosts {
		n := netns.New(t)
		w.spaces[h.name] = n
		w.outside.Wire(t, func(l netns.Links) { l.Cable(h.name, "eth0", n) })
		n.Wire(t, func(l netns.Links) { l.Up("lo") })
	}
	for _, net := range w.networks() {
		for _, h := range net.hosts {
			w.outside.Wire(t, func(l netns.Links) { l.Up(h.name, h.router+net.mask) })
			w.spaces[h.name].Wire(t, func(l netns.Links) {
				l.Up("eth0", h.ip+net.mask)
				l.Route(net.way, h.router)
			})
		}
		w.outside.Wire(t, func(l netns.Links) { l.Up("lo", net.plane+net.host, net.stranger+net.host, net.impostor+net.host) })
	}
	w.outside.Wire(t, func(l netns.Links) { l.Forward() })
	rig.Eventually(t, func() error { // cables carry when both ends have been seen plugged in
		for _, n := range w.networks() {
			for _, h := range n.hosts {
				if err := w.plugged(t, h); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// plugged checks that a host answers, if only to refuse.
func (w *world) plugged(t *testing.T, h host) (err error) {
	t.Helper()
	w.outside.Do(t, func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", at(h.ip, "1"), rig.Bound); err == nil {
			c.Close()
		}
	})
	if err == nil || !strings.Contains(err.Error(), "refused") {
		return fmt.Errorf("%s at %s: %w", h.name, h.ip, err)
	}
	return nil
}

// startPlane makes root and join tokens as an administrator does, and starts the control plane.
func (w *world) startPlane(t *testing.T, flags ...string) {
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
	rig.Write(t, w.dir, "rules/mesh.yaml", []byte(w.rules(t)))
	w.plane = rig.ControlPlane{
		Command: rig.Command{
			Path: discovery.Path(t), Dir: w.dir, In: w.outside,
			Args: append([]string{"--configDir", filepath.Join(w.dir, "rules"), "--caStateDir", state}, flags...),
		},
		Secure: at(w.network.plane, "15012"), HTTP: at(w.network.plane, "8080"),
	}.Launch(t)
}

// await waits until a page of a process says that all is well.
func (w *world) await(t *testing.T, p *rig.Process, in *netns.Namespace, page string) {
	t.Helper()
	rig.Eventually(t, func() error {
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
	c := exec.Command(agent.Path(t), "istio-iptables", "--backend", w.backend, "-m", w.mode, "-i", "*", "-b", "*", "-d",
		"15090,15021,15020", "--network-namespace", fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.spaces[name].File.Fd()))
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
	a := rig.Workload{
		Command: rig.Command{
			Name: name, Path: agent.Path(t), Dir: dir, In: w.spaces[name], User: proxyUser,
			Env: []string{"TRUST_DOMAIN=cluster.local", "ISTIOD_SAN=istiod.istio-system.svc"},
		},
		Account: account, IP: ip, Mode: w.mode, Discovery: at(w.network.plane, "15012"), Envoy: w.envoy,
		Proof: rig.Proof{Token: []byte(w.tokens[account]), Roots: root},
	}
	if name == "gw" {
		a.Role, a.Mode, a.Labels = "router", "NONE", map[string]string{"app": name, "istio": "gateway"}
	}
	if a.Mode == "TPROXY" {
		a.Ambient = []uintptr{unix.CAP_NET_ADMIN}
	}
	w.agents[name] = a.Launch(t)
}

// awaitReady waits until the proxy says so at the port that a kubelet asks.
func (w *world) awaitReady(t *testing.T, name string) {
	t.Helper()
	w.await(t, w.agents[name], w.outside, "http://"+at(w.ip(name), "15021")+"/healthz/ready")
}
