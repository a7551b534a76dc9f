package endpoint

import (
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

const unixScheme = "unix://"

// Form is the kind of addresses that a cluster can hold.
type Form uint8

// The forms. Envoy refuses a whole load assignment for one address of the wrong form.
const (
	Numeric Form = iota // IP addresses and unix sockets: STATIC and EDS clusters
	Named               // DNS names and IP addresses: clusters that resolve
)

// Fits reports whether an address has the form.
func (f Form) Fits(address string) bool {
	if IsUnix(address) {
		return f == Numeric && len(address) > len(unixScheme)
	}
	if f == Named {
		return address != ""
	}
	_, err := netip.ParseAddr(address)
	return err == nil
}

// IsUnix reports whether an address names a unix domain socket ("unix:///path", or "unix://@name" in the abstract namespace).
func IsUnix(address string) bool { return strings.HasPrefix(address, unixScheme) }

// Address is the Envoy address of an IP, DNS name or unix socket; a socket has no port.
func Address(address string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       address,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
