package identity

import (
	"net"
	"net/netip"
)

// Passthrough are the addresses from which a sidecar hands on to its workload what comes from other machines: what
// comes from there is not from this machine, though one of them is a loopback address.
var Passthrough = [...]netip.Addr{netip.MustParseAddr("127.0.0.6"), netip.MustParseAddr("::6")}

// OnThisMachine says whether a host that somebody wrote down, a name or an address, can be no other machine: what goes
// there needs no proof of who is there.
func OnThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && Local(addr)
}

// Local says whether an address can be none but this machine's own, so that who comes from there is a process of it:
// loopback addresses but those of Passthrough.
func Local(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() && a != Passthrough[0] && a != Passthrough[1]
}

// LocalPeer is Local for the other end of a connection. One whose address is no IP address stands for a connection
// within this process or machine (a pipe, a unix socket).
func LocalPeer(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return Local(a.AddrPort().Addr())
	case *net.UDPAddr:
		return Local(a.AddrPort().Addr())
	}
	return true
}
