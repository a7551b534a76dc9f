package netns

import (
	"crypto/rand"
	"encoding/binary"
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

// Links are the interfaces and routes of the namespace of the calling thread: a test uses them within Namespace.Do.
type Links struct {
	t testing.TB
	c *netlink.Conn
}

// Wire runs f with the namespace's interfaces and routes.
func (n *Namespace) Wire(t testing.TB, f func(Links)) {
	t.Helper()
	n.Do(t, func() {
		c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
		if err != nil {
			t.Errorf("connect to the routing tables: %v", err)
			runtime.Goexit()
		}
		defer c.Close()
		f(Links{t, c})
	})
}

func (l Links) request(what string, kind uint16, header []byte, attributes func(*netlink.AttributeEncoder)) {
	e := netlink.NewAttributeEncoder()
	attributes(e)
	data, err := e.Encode()
	if err == nil {
		_, err = l.c.Execute(netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | netlink.Acknowledge | netlink.Create},
			Data:   append(header, data...),
		})
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		l.t.Errorf("%s: %v", what, err)
	}
}

// Cable makes a pair of interfaces, one here and one in another namespace.
func (l Links) Cable(here, there string, other *Namespace) {
	l.request("make a cable", unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg), func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, here)
		e.Nested(unix.IFLA_LINKINFO, func(e *netlink.AttributeEncoder) error {
			e.String(unix.IFLA_INFO_KIND, "veth")
			e.Nested(unix.IFLA_INFO_DATA, func(e *netlink.AttributeEncoder) error {
				const vethInfoPeer = 1
				e.Do(vethInfoPeer, func() ([]byte, error) {
					peer := netlink.NewAttributeEncoder()
					peer.String(unix.IFLA_IFNAME, there)
					peer.Uint32(unix.IFLA_NET_NS_FD, uint32(other.File.Fd()))
					data, err := peer.Encode()
					return append(make([]byte, unix.SizeofIfInfomsg), data...), err
				})
				return nil
			})
			return nil
		})
	})
}

// Bridge makes an interface that passes packets on among those that are attached to it. Its hardware address is set explicitly: if the
// kernel chooses one, each attached interface with a lower address changes it. A host that knew the old address then cannot reach the
// bridge until its ARP entry ends, half a minute later.
func (l Links) Bridge(name string) {
	address := [6]byte{0: 2} // locally administered
	rand.Read(address[1:])
	l.request("make a bridge", unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg), func(e *netlink.AttributeEncoder) {
		e.String(unix.IFLA_IFNAME, name)
		e.Bytes(unix.IFLA_ADDRESS, address[:])
		e.Nested(unix.IFLA_LINKINFO, func(e *netlink.AttributeEncoder) error {
			e.String(unix.IFLA_INFO_KIND, "bridge")
			return nil
		})
	})
}

// Attach plugs an interface into a bridge.
func (l Links) Attach(name, bridge string) {
	header := make([]byte, unix.SizeofIfInfomsg)
	put32(header[4:], l.index(name))
	l.request("attach "+name+" to "+bridge, unix.RTM_NEWLINK, header, func(e *netlink.AttributeEncoder) {
		e.Uint32(unix.IFLA_MASTER, l.index(bridge))
	})
}

// Up brings an interface up and gives it addresses (10.0.0.1/24).
func (l Links) Up(name string, addrs ...string) {
	index := l.index(name)
	// No link-local addresses: the kernel makes them, and their routes, in its own time.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/addr_gen_mode", []byte("1"), 0); err != nil {
		l.t.Errorf("IPv6 on %s: %v", name, err)
	}
	header := make([]byte, unix.SizeofIfInfomsg)
	put32(header[4:], index)
	put32(header[8:], unix.IFF_UP)
	put32(header[12:], unix.IFF_UP)
	l.request("bring up "+name, unix.RTM_NEWLINK, header, func(*netlink.AttributeEncoder) {})
	for _, text := range addrs {
		p := netip.MustParsePrefix(text)
		header := []byte{family(p.Addr()), byte(p.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE, 0, 0, 0, 0}
		put32(header[4:], index)
		l.request("address "+text, unix.RTM_NEWADDR, header, func(e *netlink.AttributeEncoder) {
			e.Bytes(unix.IFA_LOCAL, p.Addr().AsSlice())
			e.Bytes(unix.IFA_ADDRESS, p.Addr().AsSlice())
		})
		l.awaitOwn(p.Addr())
	}
}

// awaitOwn waits until this namespace knows an address to be its own. With IPv6 the kernel sees to that in its own time; until then, a
// connection to the address takes the interface's route, and never arrives.
func (l Links) awaitOwn(a netip.Addr) {
	header := make([]byte, unix.SizeofRtMsg)
	header[0] = family(a)
	e := netlink.NewAttributeEncoder()
	e.Bytes(unix.RTA_DST, a.AsSlice())
	to, err := e.Encode()
	if err != nil {
		l.t.Errorf("the route to %s: %v", a, err)
		return
	}
	ask := netlink.Message{Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request}, Data: append(header, to...)}
	for over := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		const kind = 7 // where the answer has the kind of the route
		answer, err := l.c.Execute(ask)
		switch {
		case err == nil && len(answer) == 1 && len(answer[0].Data) > kind && answer[0].Data[kind] == unix.RTN_LOCAL:
			return
		case time.Now().After(over):
			l.t.Errorf("%s is not this namespace's own: %v %v", a, answer, err)
			return
		}
	}
}

// Route sends packets for a network to a neighbour.
func (l Links) Route(network, by string) {
	p, gateway := netip.MustParsePrefix(network), netip.MustParseAddr(by)
	header := []byte{
		family(gateway),
		byte(p.Bits()),
		0,
		0,
		unix.RT_TABLE_MAIN,
		unix.RTPROT_STATIC,
		unix.RT_SCOPE_UNIVERSE,
		unix.RTN_UNICAST,
		0,
		0,
		0,
		0,
	}
	l.request("route to "+network, unix.RTM_NEWROUTE, header, func(e *netlink.AttributeEncoder) {
		e.Bytes(unix.RTA_DST, p.Addr().AsSlice())
		e.Bytes(unix.RTA_GATEWAY, gateway.AsSlice())
	})
}

// Forward has this namespace pass on packets that are for others.
func (l Links) Forward() {
	for _, path := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			l.t.Errorf("pass packets on: %v", err)
		}
	}
}

func (l Links) index(name string) uint32 {
	i, err := net.InterfaceByName(name)
	if err != nil {
		l.t.Errorf("%v", err)
		return 0
	}
	return uint32(i.Index)
}

func put32(b []byte, n uint32) { binary.NativeEndian.PutUint32(b, n) }

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
