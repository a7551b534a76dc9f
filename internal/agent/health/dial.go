package health

import (
	"context"
	"net"
	"net/netip"

	"fairway/internal/identity"
)

// Dial connects to the application beside this agent. Where the kernel redirects connections, one that this agent's user opens
// to an address of its own machine is taken for one that the proxy sends to itself, and arrives at the proxy: which refuses it
// where mutual TLS is demanded. From the address that the proxy reaches its workload by, it arrives at the workload.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if from := source(address); from.IsValid() {
		own := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		if c, err := own.DialContext(ctx, network, address); err == nil || ctx.Err() != nil {
			return c, err
		} // ::6 is no address of machines where IPv6 is not redirected
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// source is where the proxy's connections to an address of this machine's come from. The zero Addr: the address is loopback's, a
// name, or another machine's.
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
