package live

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fairway/test/rig"
)

// isolatedEnv names the test that runs in a namespace of its own, to the process that does.
const isolatedEnv = "FAIRWAY_ISOLATED_TEST"

// Isolated runs the calling test in a network namespace of its own, and where the user is not root in a user namespace
// too: in the process that go test started it runs the test again in a child that has them, reports how that went and
// returns false; in the child it returns true. It skips the test where the kernel forbids namespaces.
func Isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) == t.Name() {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=4m")
	cmd.Env = append(os.Environ(), isolatedEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this kernel forbids a network namespace to this user: %v", err)
	}
	if err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()+" ") {
		t.Skipf("in a namespace of its own:\n%s", out)
	}
	t.Logf("in a namespace of its own:\n%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// Mark marks sockets so that the kernel redirects their traffic to a proxy, as the user of a process does beside a real
// workload. Sockets without one are left alone: a proxy's own, and the control plane's.
type Mark uint32

const (
	// Workload marks connections of the workload beside a proxy: they go to the proxy's outbound port.
	Workload Mark = 1
	// Outside marks connections that come to the workload from elsewhere: they go to the proxy's inbound port.
	Outside Mark = 2
)

// Redirect brings up loopback with all of 10.0.0.0/8 on it and has the kernel redirect marked connections to the ports
// of a proxy: Workload's to outbound, Outside's to inbound. It is for an Isolated test, and skips it where the kernel
// cannot.
func Redirect(t testing.TB, outbound, inbound uint16) {
	t.Helper()
	if err := loopback(); err != nil {
		t.Fatalf("bring up loopback: %v", err)
	}
	if err := redirect(map[Mark]uint16{Workload: outbound, Outside: inbound}); err != nil {
		t.Skipf("this kernel does not redirect connections (nf_tables with nat is needed): %v", err)
	}
}

// loopback brings up lo. The address of its alias has the mask of its class, and so the whole network is local.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr([]byte{10, 0, 0, 1}); err != nil {
		return err
	}
	return errors.Join(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up), unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias))
}

func redirect(ports map[Mark]uint16) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Name: "live", Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{
		Name:     "output",
		Table:    table,
		Type:     nftables.ChainTypeNAT,
		Hooknum:  nftables.ChainHookOutput,
		Priority: nftables.ChainPriorityNATDest,
	})
	for mark, port := range ports {
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
			&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(uint32(mark))},
			&expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
			&expr.Redir{RegisterProtoMin: 1},
		}})
	}
	return c.Flush()
}

// From is a Dial of marked connections from an address of this machine; empty: from any.
func (m Mark) From(ip string) Dial {
	d := net.Dialer{Timeout: rig.Bound, Control: m.control}
	if ip != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(ip)}
	}
	return d.DialContext
}

// control marks a socket before it connects.
func (m Mark) control(_, _ string, c syscall.RawConn) error {
	if m == 0 {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(m))
	})
	if err != nil || failed != nil {
		return fmt.Errorf("mark a socket: %w", errors.Join(err, failed))
	}
	return nil
}
