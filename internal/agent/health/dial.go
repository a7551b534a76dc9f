package health

import (
	"context"
	"net"
	"net/netip"

	"fairway/internal/identity"
)

// Dial connects to the application beside this agent. If the kernel redirects connections, it takes a connection that this agent's
// user opens to an address of its own machine for one of the proxy to itself: it arrives at the proxy, which refuses it if mutual
// TLS is required. A connection from the address that the proxy uses to reach its workload arrives at the workload.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if from := source(address); from.IsValid() {
		own := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		if c, err := own.DialContext(ctx, network, address); err == nil || ctx.Err() != nil {
			return c, err
		} // ::6 is not an address of machines where IPv6 is not redirected
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// source returns the source address of the proxy's connections to an address of this machine. The zero Addr: the address is
// loopback's, a name, or another machine's.
func source(address string) netip.Addr {
	at, err := netip.ParseAddrPort(address)
	if err != nil || at.Addr().IsLoopback() {
		return netip.Addr{}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}
	}
	for _, a := range all {
		if own, err := netip.ParsePrefix(a.String()); err == nil && own.Addr() == at.Addr().Unmap() {
			if at.Addr().Unmap().Is4() {
				return identity.Passthrough[0]
			}
			return identity.Passthrough[1]
		}
	}
	return netip.Addr{}
}
