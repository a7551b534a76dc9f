package mesh

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Reach says how far an address is from the client that connects to it. Names are not resolved, so only the address itself counts.
type Reach uint8

// The reaches, from far to near.
const (
	Anywhere  Reach = iota // another machine, as far as the address shows
	Cloud                  // a cloud's metadata service, where machines get credentials, at an address that is not link-local
	OnLink                 // link-local: the neighbours of the machine, and most clouds' metadata services
	OnMachine              // loopback and unspecified addresses, names that mean them: the machine itself
	Socket                 // a unix domain socket of the machine
)

func (r Reach) String() string {
	return [...]string{
		"another machine's address", "the address of a cloud's metadata service", "a link-local address",
		"a loopback address", "a unix socket",
	}[r]
}

// ReachOf reads an address as leniently as any resolver: IPv4 addresses within IPv6 ones (mapped, compatible, translated, 6to4), IPv4
// addresses of fewer than four parts or with octal and hexadecimal ones, trailing dots, brackets and zones. If a text can be read in two
// ways, the nearer one counts.
func ReachOf(address string) Reach {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "@") || strings.HasPrefix(address, "/") {
		return Socket
	}
	s := strings.TrimRight(strings.TrimSpace(address), ".")
	if a, err := netip.ParseAddr(s); err == nil {
		return ReachOfIP(a)
	}
	if inner := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"); inner != s {
		if a, err := netip.ParseAddr(inner); err == nil {
			return ReachOfIP(a)
		}
	}
	if a, err := netip.ParsePrefix(s); err == nil {
		return ReachOfIP(a.Addr())
	}
	s = strings.ToLower(s)
	if meansLoopback(s) {
		return OnMachine
	}
	if slices.Contains(metadataNames, s) {
		return Cloud
	}
	return max(oddIPv4(s, false), oddIPv4(s, true))
}

// Hosts files of Linux distributions have other names for localhost.
var loopbackNames = []string{
	"localhost",
	"localhost4",
	"localhost6",
	"localhost.localdomain",
	"localhost4.localdomain4",
	"localhost6.localdomain6",
	"ip6-localhost",
	"ip6-loopback",
	"loopback",
}

// metadataNames are the names of clouds' metadata services.
var metadataNames = []string{"metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}

// metadataNetworks are addresses of metadata services that are not link-local.
var metadataNetworks = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::254/128"),  // Amazon EC2
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
}

// CredentialNetworks returns the networks where clouds give credentials to their machines: link-local networks, and the addresses of
// metadata services that are not link-local. By default nothing is fetched from there.
func CredentialNetworks() []netip.Prefix {
	return append([]netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}, metadataNetworks...)
}

// meansLoopback: names below localhost are loopback by RFC 6761 §6.3.
func meansLoopback(name string) bool {
	return slices.Contains(loopbackNames, name) || strings.HasSuffix(name, ".localhost")
}

var (
	translated = []netip.Prefix{
		netip.MustParsePrefix("::/96"),
		netip.MustParsePrefix("::ffff:0:0:0/96"),
		netip.MustParsePrefix("64:ff9b::/96"),
		netip.MustParsePrefix("64:ff9b:1::/48"),
	}
	sixToFour = netip.MustParsePrefix("2002::/16")
	thisHost  = netip.MustParsePrefix("0.0.0.0/8")
)

// ReachOfIP is ReachOf for an address that is known to be one.
func ReachOfIP(a netip.Addr) Reach {
	a = Innermost(a)
	switch {
	case a.IsLoopback() || a.IsUnspecified() || thisHost.Contains(a):
		return OnMachine
	case a.IsLinkLocalUnicast():
		return OnLink
	case slices.ContainsFunc(metadataNetworks, func(p netip.Prefix) bool { return p.Contains(a) }):
		return Cloud
	}
	return Anywhere
}

// Innermost returns the IPv4 address within an IPv6 address (mapped, compatible, translated, 6to4), or else the address, without its zone.
func Innermost(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if !a.Is6() || a.IsLoopback() || a.IsUnspecified() {
		return a
	}
	b := a.As16()
	for _, p := range translated {
		if p.Contains(a) {
			return netip.AddrFrom4([4]byte(b[12:]))
		}
	}
	if sixToFour.Contains(a) {
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// oddIPv4 reads the forms that inet_aton accepts: one to four numbers, where the last number fills the remaining bytes. If decimal is true,
// a leading zero is ignored, as by some resolvers; else it means octal.
func oddIPv4(s string, decimal bool) Reach {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return Anywhere
	}
	var ip uint64
	for i, part := range parts {
		digits, base := part, 10
		switch {
		case strings.HasPrefix(part, "0x"):
			digits, base = part[2:], 16
		case !decimal && len(part) > 1 && part[0] == '0':
			base = 8
		}
		if digits == "" && base == 16 {
			digits = "0"
		}
		n, err := strconv.ParseUint(digits, base, 64)
		if err != nil {
			return Anywhere
		}
		if i == len(parts)-1 {
			ip |= n & (1<<(8*(4-i)) - 1)
		} else {
			ip |= n & 0xff << (8 * (3 - i))
		}
	}
	return ReachOfIP(netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}))
}
