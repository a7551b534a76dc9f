package intercept

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The two namespaces and what they can be dialled at. All networks of services lie outside, so that what is not intercepted arrives there.
var (
	workloadAddrs = []string{"10.0.0.2/24", "fd00::2/64"}
	outsideAddrs  = []string{"10.0.0.1/24", "fd00::1/64"}
	serviceAddrs  = []string{"10.96.0.10/32", "10.97.0.10/32", "10.96.0.53/32", "fd96::10/128", "fd97::10/128", "fd96::53/128"}
	guestNetwork  = "10.98.0.0/16" // what is outside reaches it through the workload
)

// world is a workload's network namespace, another one outside, and a cable between.
type world struct {
	workload, outside *namespace
}

// namespace is a network namespace; it goes when the test ends.
type namespace struct {
	file *os.File
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces and users of one's own need root")
	}
	w := &world{workload: newNamespace(t), outside: newNamespace(t)}
	w.workload.do(t, func() {
		c := routing(t)
		defer c.Close()
		cable(t, c, "eth0", "peer0", w.outside)
		setUp(t, c, "lo", "::6/128")
		setUp(t, c, "eth0", workloadAddrs...)
	})
	w.outside.do(t, func() {
		c := routing(t)
		defer c.Close()
		setUp(t, c, "lo", serviceAddrs...)
		setUp(t, c, "peer0", outsideAddrs...)
		addRoute(t, c, guestNetwork, "10.0.0.2")
	})
	w.workload.do(t, func() {
		c := routing(t)
		defer c.Close()
		addRoute(t, c, "0.0.0.0/0", "10.0.0.1")
		addRoute(t, c, "::/0", "fd00::1")
	})
	w.awaitCable(t)
	return w
}

// awaitCable returns when the kernel saw that both ends are plugged in, after which it changes no route by itself: when the other end refuses connections.
func (w *world) awaitCable(t *testing.T) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for _, to := range []string{"10.0.0.1:1", "[fd00::1]:1"} {
		for {
			var err error
			w.workload.do(t, func() { _, err = net.DialTimeout("tcp", to, patience) })
			if errors.Is(err, unix.ECONNREFUSED) {
				break
			}
			select {
			case <-again.C:
			case <-late:
				t.Fatalf("the cable carries nothing: %v", err)
			}
		}
	}
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{}
	var failed error
	thread(func() {
		if failed = unix.Unshare(unix.CLONE_NEWNET); failed == nil {
			n.file, failed = os.Open("/proc/thread-self/ns/net")
		}
	})
	if failed != nil {
		t.Skipf("this machine forbids a network namespace: %v", failed)
	}
	t.Cleanup(func() { n.file.Close() })
	return n
}

// thread runs f on a thread of its own that ends with it, so that f may change what belongs to a thread.
func thread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// do runs f in the namespace. What f opens stays there. f must not end the test.
func (n *namespace) do(t *testing.T, f func()) {
	t.Helper()
	var failed error
	thread(func() {
		if failed = unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); failed == nil {
			f()
		}
	})
	if failed != nil {
		t.Fatalf("enter a network namespace: %v", failed)
	}
}

func routing(t *testing.T) *netlink.Conn {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		t.Errorf("connect to the routing tables: %v", err)
		runtime.Goexit()
	}
	return c
}

func request(t *testing.T, c *netlink.Conn, what string, kind uint16, header []byte, attributes func(*netlink.AttributeEncoder)) {
	e := netlink.NewAttributeEncoder()
	attributes(e)
	data, err := e.Encode()
	if err == nil {
		_, err = c.Execute(netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | netlink.Acknowledge | netlink.Create},
			Data:   append(header, data...),
		})
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		t.Errorf("%s: %v", what, err)
	}
}

// cable makes a pair of interfaces, one here and one in another namespace.
func cable(t *testing.T, c *netlink.Conn, here, there string, other *namespace) {
	request(t, c, "make a cable", unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg), func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, here)
		e.Nested(unix.IFLA_LINKINFO, func(e *netlink.AttributeEncoder) error {
			e.String(unix.IFLA_INFO_KIND, "veth")
			e.Nested(unix.IFLA_INFO_DATA, func(e *netlink.AttributeEncoder) error {
				const vethInfoPeer = 1
				e.Do(vethInfoPeer, func() ([]byte, error) {
					peer := netlink.NewAttributeEncoder()
					peer.String(unix.IFLA_IFNAME, there)
					peer.Uint32(unix.IFLA_NET_NS_FD, uint32(other.file.Fd()))
					data, err := peer.Encode()
					return append(make([]byte, unix.SizeofIfInfomsg), data...), err
				})
				return nil
			})
			return nil
		})
	})
}

// setUp brings an interface up and gives it addresses.
func setUp(t *testing.T, c *netlink.Conn, name string, addrs ...string) {
	index := indexOf(t, name)
	// No link-local addresses: the kernel makes them, and their routes, in its own time.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/addr_gen_mode", []byte("1"), 0); err != nil {
		t.Errorf("IPv6 on %s: %v", name, err)
	}
	header := make([]byte, unix.SizeofIfInfomsg)
	put32(header[4:], index)
	put32(header[8:], unix.IFF_UP)
	put32(header[12:], unix.IFF_UP)
	request(t, c, "bring up "+name, unix.RTM_NEWLINK, header, func(*netlink.AttributeEncoder) {})
	for _, text := range addrs {
		p := netip.MustParsePrefix(text)
		header := []byte{family(p.Addr()), byte(p.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE, 0, 0, 0, 0}
		put32(header[4:], index)
		request(t, c, "address "+text, unix.RTM_NEWADDR, header, func(e *netlink.AttributeEncoder) {
			e.Bytes(unix.IFA_LOCAL, p.Addr().AsSlice())
			e.Bytes(unix.IFA_ADDRESS, p.Addr().AsSlice())
		})
	}
}

func addRoute(t *testing.T, c *netlink.Conn, network, by string) {
	p, gateway := netip.MustParsePrefix(network), netip.MustParseAddr(by)
	header := []byte{family(gateway), byte(p.Bits()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	request(t, c, "route to "+network, unix.RTM_NEWROUTE, header, func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.RTA_DST, p.Addr().AsSlice())
		e.Bytes(unix.RTA_GATEWAY, gateway.AsSlice())
	})
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
