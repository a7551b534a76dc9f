package names

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"fairway/internal/mesh"
)

// allowedLocal are names that may resolve to this machine or its link: localhost (RFC 6761, 6.3), and a cloud's metadata server.
var allowedLocal = [...]string{"localhost.", "metadata.google.internal."}

// withoutLocal removes addresses of this machine or its link from a name server's answer, unless the name may have them: otherwise
// the owner of any name could make a workload, or its proxy, connect to a server that listens only on its loopback address. It
// returns how many it removed.
func (f *forwarder) withoutLocal(reply *dns.Msg) (refused int) {
	if len(reply.Question) == 0 || f.mayBeLocal(canonical(reply.Question[0].Name)) {
		return 0
	}
	for _, section := range []*[]dns.RR{&reply.Answer, &reply.Extra} {
		kept := slices.DeleteFunc(slices.Clone(*section), localRecord)
		refused += len(*section) - len(kept)
		*section = kept
	}
	return refused
}

func (f *forwarder) mayBeLocal(name string) bool {
	for _, ends := range append(allowedLocal[:], f.o.LocalNames...) {
		ends = canonical(ends)
		if name == ends || strings.HasSuffix(name, "."+ends) {
			return true
		}
	}
	return false
}

// localRecord reports whether a record holds such an address, also as the hint of a service (RFC 9460).
func localRecord(r dns.RR) bool {
	switch r := r.(type) {
	case *dns.A:
		return localAddress(r.A)
	case *dns.AAAA:
		return localAddress(r.AAAA)
	case *dns.SVCB:
		return localHint(r.Value)
	case *dns.HTTPS:
		return localHint(r.Value)
	}
	return false
}

func localHint(values []dns.SVCBKeyValue) bool {
	for _, v := range values {
		switch v := v.(type) {
		case *dns.SVCBIPv4Hint:
			if slices.ContainsFunc(v.Hint, func(ip net.IP) bool { return localAddress(ip) }) {
				return true
			}
		case *dns.SVCBIPv6Hint:
			if slices.ContainsFunc(v.Hint, func(ip net.IP) bool { return localAddress(ip) }) {
				return true
			}
		}
	}
	return false
}

func localAddress(ip []byte) bool {
	a, ok := netip.AddrFromSlice(ip)
	return ok && mesh.ReachOfIP(a) != mesh.Anywhere
}
