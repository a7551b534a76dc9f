package peer

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Caller describes the process that made a connection.
type Caller struct {
	UID   int
	inode string
}

// errUnknown is the error for a connection that no process of this network namespace made.
var errUnknown = errors.New("no process of this machine has the other end of the connection")

// Find returns the process at the other end of a TCP connection within this machine. It reads the kernel's tables of sockets. local is the
// address of this end, and remote is the address of the other end.
func Find(local, remote netip.AddrPort) (Caller, error) {
	for _, table := range [...]string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // a kernel without IPv6
		}
		c, err := find(f, plain(remote), plain(local))
		f.Close()
		if err == nil {
			return c, nil
		}
	}
	return Caller{}, errUnknown
}

func plain(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// Columns of /proc/net/tcp (Linux, Documentation/networking/proc_net_tcp).
const (
	columnLocal  = 1
	columnRemote = 2
	columnUID    = 7
	columnInode  = 9
)

// find looks a connection up from the caller's side.
func find(table io.Reader, from, to netip.AddrPort) (Caller, error) {
	lines := bufio.NewScanner(table)
	lines.Buffer(make([]byte, 0, 4096), 64<<10)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) <= columnInode || address(f[columnLocal]) != from || address(f[columnRemote]) != to {
			continue
		}
		uid, err := strconv.Atoi(f[columnUID])
		if err != nil {
			return Caller{}, fmt.Errorf("read the table of sockets: %w", err)
		}
		return Caller{UID: uid, inode: f[columnInode]}, nil
	}
	return Caller{}, errUnknown
}

// address reads an address of the table, which has the machine's byte order; the zero AddrPort if it is invalid.
func address(text string) netip.AddrPort {
	ip, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(ip)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number))
}

// Within reports whether one of these processes, or any that runs the same program (a path; empty: none), has the caller's end of
// the connection. It returns an error if that cannot be known.
func (c Caller) Within(pids []int, program string) (bool, error) {
	pids = append(pids, running(program)...)
	for _, pid := range pids {
		has, err := c.hasSocket(pid)
		if has || err != nil {
			return has, err
		}
	}
	return false, nil
}

func (c Caller) hasSocket(pid int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // it has ended, and its connections with it
	}
	if err != nil {
		return false, fmt.Errorf("look up the owner of the connection: %w", err)
	}
	want := "socket:[" + c.inode + "]"
	for _, fd := range open {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && to == want {
			return true, nil
		}
	}
	return false, nil
}

// running returns the processes that run a program file. Unless this process is root, those of other users are not found.
func running(program string) []int {
	want, err := os.Stat(program)
	if program == "" || err != nil {
		return nil
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, one := range all {
		pid, err := strconv.Atoi(one.Name())
		if err != nil {
			continue
		}
		if is, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && os.SameFile(is, want) {
			out = append(out, pid)
		}
	}
	return out
}

// Addresses returns a connection's two ends; false if it is not TCP.
func Addresses(c net.Conn) (local, remote netip.AddrPort, ok bool) {
	l, okL := c.LocalAddr().(*net.TCPAddr)
	r, okR := c.RemoteAddr().(*net.TCPAddr)
	if !okL || !okR {
		return local, remote, false
	}
	return l.AddrPort(), r.AddrPort(), true
}
