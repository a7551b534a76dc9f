package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"fairway/test/netns"
)

const (
	bridge = "pods0"
	// HostIP is the address at which pods reach the programs in Host.
	HostIP = "10.44.0.1"
	mask   = "/16"
)

// Network is the network of all pods of a cluster.
type Network struct {
	Host *netns.Namespace // has the bridge, and all programs outside pods
	pods atomic.Int64
}

// NewNetwork makes one without pods. It skips the test if this machine forbids namespaces, and says which ones.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := &Network{Host: netns.New(t)}
	if err := mayMount(); err != nil {
		t.Skipf("this machine forbids file systems of a container's own: %v", err)
	}
	n.Host.Wire(t, func(l netns.Links) {
		l.Up("lo")
		l.Bridge(bridge)
		l.Up(bridge, HostIP+mask)
		l.Forward()
	})
	return n
}

// mayMount tries the mounts that every container needs.
func mayMount() error {
	dir, err := os.MkdirTemp("", "may-mount")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	done := make(chan error)
	go netns.Alone(func() {
		defer close(done)
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			done <- err
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			done <- err
			return
		}
		done <- unix.Mount("tmpfs", dir, "tmpfs", 0, "")
	})
	return <-done
}

// Serve gives Host one more address: that of a Service without pods, which a program there listens for.
func (n *Network) Serve(t testing.TB, ip string) {
	t.Helper()
	n.Host.Wire(t, func(l netns.Links) { l.Up("lo", ip+"/32") })
}

// plug makes the network namespace of one more pod, and returns it with its address.
func (n *Network) plug(t testing.TB, sysctls map[string]string) (*netns.Namespace, string, error) {
	in, err := netns.Make()
	if err != nil {
		return nil, "", err
	}
	number := n.pods.Add(1)
	name, ip := fmt.Sprintf("pod%d", number), fmt.Sprintf("10.44.%d.%d", 1+number/250, 1+number%250)
	n.Host.Wire(t, func(l netns.Links) {
		l.Cable(name, "eth0", in)
		l.Attach(name, bridge)
		l.Up(name)
	})
	in.Wire(t, func(l netns.Links) {
		l.Up("lo")
		l.Up("eth0", ip+mask)
		l.Route("0.0.0.0/0", HostIP)
	})
	in.Do(t, func() {
		for key, value := range sysctls {
			if e := os.WriteFile(filepath.Join("/proc/sys", strings.ReplaceAll(key, ".", "/")), []byte(value), 0); e != nil {
				err = e
			}
		}
	})
	return in, ip, err
}
