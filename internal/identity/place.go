package identity

import (
	"net"
	"net/netip"
)

// Passthrough are the addresses from which a sidecar connects to its workload for requests of other machines: connections from there are
// not local, though one of them is a loopback address.
var Passthrough = [...]netip.Addr{netip.MustParseAddr("127.0.0.6"), netip.MustParseAddr("::6")}

// OnThisMachine reports whether a host that a user wrote, a name or an address, can only be this machine. A connection to it needs no proof
// of the server's identity.
func OnThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && Local(addr)
}

// Local reports whether an address can only be this machine's own, so that the peer is one of its processes: loopback addresses except
// those of Passthrough.
func Local(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() && a != Passthrough[0] && a != Passthrough[1]
}

// LocalPeer is Local for the peer of a connection. A peer without an IP address counts as local, because it is a connection within this
// process or machine (a pipe, a unix socket).
func LocalPeer(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return Local(a.AddrPort().Addr())
	case *net.UDPAddr:
		return Local(a.AddrPort().Addr())
	}
	return true
}
