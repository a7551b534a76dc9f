package names

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairway/internal/agent/intercept"
	"fairway/internal/agent/names"
	"fairway/internal/agent/relay"
	"fairway/test/envoy/live"
	"fairway/test/plane"
	"fairway/test/rig"
)

// agent is built before the test has a namespace of its own.
var agent = rig.Program{Name: "pilot-agent"}

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &agent)) }

// group is the proxy's: its traffic is not intercepted.
const group = 1337

// entry is a service that only its name finds: it has no address of its own.
func entry(t *testing.T, name string) string {
	t.Helper()
	return rig.Text(t, "services.txtar:named", rig.Pairs("name", name))
}

// TestNames: a name of the mesh resolves to an address that the control plane gave it, and connections to that go
// through Envoy; a service more or less is one resource.
func TestNames(t *testing.T) {
	live.NeedEnvoy(t)
	if os.Geteuid() != 0 {
		t.Skip("the rules of interception tell users apart: this needs root")
	}
	agent.Hand(t)
	if !live.Isolated(t) {
		return
	}
	live.Redirect(t, 15001, 15006)
	o := intercept.DefaultOptions()
	o.RedirectDNS, o.CaptureAllDNS = true, true
	if _, err := intercept.Apply(t.Context(), o, intercept.Nftables); err != nil {
		t.Fatal(err)
	}
	p := plane.Start(t, plane.Options())
	p.Apply(t, "rules", rig.Text(t, "services.txtar:addressed")+"---\n"+entry(t, "db"))
	serveTCP(t, "127.0.0.1:5432")
	launch(t, p.Address())

	vips := resolves(t, "udp", "db.example.com", "ip4")
	if len(vips) != 1 || !netip.MustParsePrefix("240.240.0.0/16").Contains(vips[0]) {
		t.Fatalf("db.example.com is %v", vips)
	}
	if over := resolves(t, "tcp", "db.example.com", "ip4"); !slices.Equal(over, vips) {
		t.Errorf("over TCP it is %v", over)
	}
	for _, name := range []string{
		"reviews.default.svc.cluster.local", "reviews.default.svc", "reviews.default",
		"reviews.default.default.svc.cluster.local",
	} {
		if got := resolves(t, "udp", name, "ip"); !slices.Equal(got,
			[]netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:96::1")}) {
			t.Errorf("%s is %v", name, got)
		}
	}
	addLocal(t, vips[0])
	if got := dial(t, netip.AddrPortFrom(vips[0], 5432)); got != "hello" {
		t.Errorf("the service said %q", got)
	}

	before := counted(t)
	p.Apply(t, "more", entry(t, "more"))
	awaitCounts(t, before.Resources+1, before.Removed)
	if got := resolves(t, "udp", "more.example.com", "ip4"); len(got) != 1 || got[0] == vips[0] {
		t.Errorf("more.example.com is %v", got)
	}
	p.Delete(t, "ServiceEntry", "default", "more")
	awaitCounts(t, before.Resources+1, before.Removed+1)
	if after := counted(t); after.Bytes-before.Bytes > 1000 {
		t.Errorf("a service more and less took %d bytes", after.Bytes-before.Bytes)
	}
	var dnsz names.Status
	ask(t, "/debug/dnsz", &dnsz)
	if len(dnsz.Names) != 2 || dnsz.Names[0].Host != "db.example.com" {
		t.Errorf("/debug/dnsz has %+v", dnsz.Names)
	}
}

// launch starts the agent and waits until its proxy is ready.
func launch(t *testing.T, discovery string) {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(agent.Path(t), "proxy", "sidecar", "--discoveryAddress", discovery, "--envoy", live.NeedEnvoy(t),
		"--concurrency", "1")
	c.Dir = dir
	c.Env = append(os.Environ(), "POD_NAME=web", "POD_NAMESPACE=default", "INSTANCE_IP=10.0.0.2", "ISTIO_META_DNS_CAPTURE=true",
		"ISTIO_META_DNS_AUTO_ALLOCATE=true", "MINIMUM_DRAIN_DURATION=1ms", "TERMINATION_DRAIN_DURATION_SECONDS=1")
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Credential: &syscall.Credential{Gid: group}}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.Process.Signal(syscall.SIGINT)
		_ = c.Wait() // how it ended is in its log
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("--- pilot-agent\n%s", text[max(0, len(text)-6000):])
		}
	})
	rig.Eventually(t, func() error {
		resp, err := http.Get("http://127.0.0.1:15020/healthz/ready")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}

func ask(t *testing.T, page string, to any) {
	t.Helper()
	resp, err := http.Get("http://127.0.0.1:15020" + page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(to); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
}

// counted is what the relay was sent of names.
func counted(t *testing.T) relay.TypeStatus {
	t.Helper()
	var facts struct{ Relay relay.Status }
	ask(t, "/debug/agent", &facts)
	for _, typ := range facts.Relay.Types {
		if strings.HasSuffix(typ.Type, ".NameTable") {
			return typ
		}
	}
	t.Fatalf("the relay knows no names: %+v", facts.Relay)
	return relay.TypeStatus{}
}

func awaitCounts(t *testing.T, resources, removed int) {
	t.Helper()
	rig.Eventually(t, func() error {
		if got := counted(t); got.Resources != resources || got.Removed != removed {
			return fmt.Errorf("%d resources and %d removals were sent, want %d and %d", got.Resources, got.Removed, resources, removed)
		}
		return nil
	})
}

// resolves asks the name server of a client's resolv.conf, over one network.
func resolves(t *testing.T, network, name, family string) []netip.Addr {
	t.Helper()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, "10.0.0.53:53")
	}}
	var found []netip.Addr
	rig.Eventually(t, func() (err error) { // the machine may be too busy for the resolver's own patience
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		found, err = resolver.LookupNetIP(ctx, family, name+".")
		return err
	})
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return found
}

// addLocal makes an address this machine's, so that the kernel has a way to it; nothing listens there.
func addLocal(t *testing.T, ip netip.Addr) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	alias, err := unix.NewIfreq("lo:2")
	if err == nil {
		err = alias.SetInet4Addr(ip.AsSlice())
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias)
	}
	if err != nil {
		t.Fatalf("an address of loopback: %v", err)
	}
}

// serveTCP greets each connection.
func serveTCP(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello") // the client returns what it got
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// dial connects as the workload does, and returns the server's greeting.
func dial(t *testing.T, to netip.AddrPort) (said string) {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (failed error) {
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(live.Workload))
		})
		if err != nil {
			return err
		}
		return failed
	}}
	rig.Eventually(t, func() error {
		c, err := d.DialContext(t.Context(), "tcp", to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := io.ReadAll(c)
		if said = string(text); err == nil && said == "" {
			return io.ErrUnexpectedEOF
		}
		return err
	})
	return said
}
