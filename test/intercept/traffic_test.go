package intercept

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience bounds what must happen; nothing waits that long unless it failed.
const patience = 3 * time.Second

// who is the user and group of a client's or server's sockets.
type who struct{ uid, gid int }

var (
	app        = who{1000, 1000}
	proxyUser  = who{1337, 1000}
	proxyGroup = who{1000, 1337}
)

// as has sockets that f opens belong to a user: the kernel asks for the file system's ones of the thread that opened them.
func (n *namespace) as(t *testing.T, id who, f func()) {
	t.Helper()
	n.Do(t, func() {
		syscall.RawSyscall(unix.SYS_SETFSGID, uintptr(id.gid), 0, 0)
		syscall.RawSyscall(unix.SYS_SETFSUID, uintptr(id.uid), 0, 0)
		f()
	})
}

// serve accepts connections and tells each of them: the server's name, where the connection was to go, and from where it came.
func (n *namespace) serve(t *testing.T, name, address string, options ...socketOption) {
	t.Helper()
	n.as(t, proxyUser, func() {
		l, err := (&net.ListenConfig{Control: set(options)}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("serve %s: %v", name, err)
			return
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprintf(c, "%s %s from %s\n", name, dialled(c.(*net.TCPConn)), host(c.RemoteAddr()))
				c.Close()
			}
		}()
	})
}

func host(a net.Addr) string {
	p := netip.MustParseAddrPort(a.String())
	return p.Addr().Unmap().String()
}

// dialled is SO_ORIGINAL_DST where the connection was redirected, as the original_dst filter of Envoy reads it, else where it arrived.
func dialled(c *net.TCPConn) string {
	out := c.LocalAddr().String()
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	err = raw.Control(func(fd uintptr) {
		if to, err := original(fd, netip.MustParseAddrPort(out).Addr()); err == nil {
			out = to.String()
		}
	})
	if err != nil {
		return err.Error()
	}
	return out
}

func original(fd uintptr, local netip.Addr) (netip.AddrPort, error) {
	var raw [unix.SizeofSockaddrInet6]byte
	size := uint32(len(raw))
	level := uintptr(unix.SOL_IP)
	if local.Is6() && !local.Is4In6() {
		level = unix.SOL_IPV6
	}
	const originalDst = 80 // SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, level, originalDst, uintptr(unsafe.Pointer(&raw[0])),
		uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return netip.AddrPort{}, errno
	}
	port := uint16(raw[2])<<8 | uint16(raw[3])
	if level == unix.SOL_IPV6 {
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])), port), nil
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), port), nil
}

// socketOption is set before a socket is bound.
type socketOption struct{ level, name, value int }

var (
	transparent   = socketOption{unix.SOL_IP, unix.IP_TRANSPARENT, 1}
	transparentV6 = socketOption{unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1}
	marked        = socketOption{unix.SOL_SOCKET, unix.SO_MARK, 1337}
	reused        = socketOption{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}
)

func set(options []socketOption) func(_, _ string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			for _, o := range options {
				if o == transparentV6 && !strings.HasSuffix(network, "6") {
					continue
				}
				failed = errors.Join(failed, unix.SetsockoptInt(int(fd), o.level, o.name, o.value))
			}
		})
		return errors.Join(err, failed)
	}
}

// dial returns the greeting of the server at the other end; "" if none is reached.
func (n *namespace) dial(t *testing.T, id who, from, to string, options ...socketOption) string {
	t.Helper()
	var said string
	n.as(t, id, func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		d := net.Dialer{Control: set(options)}
		if from != "" {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
		}
		c, err := d.DialContext(ctx, "tcp", to)
		if err != nil {
			t.Logf("dial %s: %v", to, err)
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		said, err = bufio.NewReader(c).ReadString('\n')
		if err != nil {
			t.Logf("read from %s: %v", to, err)
		}
	})
	return strings.TrimSpace(said)
}

// answer serves datagrams: each is answered with the server's name.
func (n *namespace) answer(t *testing.T, name, address string) {
	t.Helper()
	n.as(t, proxyUser, func() {
		c, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Errorf("serve %s: %v", name, err)
			return
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			b := make([]byte, 100)
			for {
				_, from, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = c.WriteTo([]byte(name), from)
			}
		}()
	})
}

// socket connects a UDP socket. It lives on after the test's thread.
func (n *namespace) socket(t *testing.T, id who, from, to string) net.Conn {
	t.Helper()
	var c net.Conn
	n.as(t, id, func() {
		d := net.Dialer{Control: set([]socketOption{reused})}
		if from != "" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))
		}
		var err error
		if c, err = d.DialContext(t.Context(), "udp", to); err != nil {
			t.Errorf("open a socket to %s: %v", to, err)
		}
	})
	if c == nil {
		t.FailNow()
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a datagram and returns the answer from its destination; a connected socket takes no other.
func ask(t *testing.T, c net.Conn) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("?")); err != nil {
		t.Logf("ask %s: %v", c.RemoteAddr(), err)
		return ""
	}
	b := make([]byte, 100)
	size, err := c.Read(b)
	if err != nil {
		t.Logf("ask %s: %v", c.RemoteAddr(), err)
	}
	return string(b[:size])
}
