package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Limits on the answers of name servers.
const (
	mostAddresses = 32              // of a name; the first in order count
	answerTime    = 5 * time.Second // of one question to one server
	mostServers   = 3               // that are asked, as the C library does
	udpSize       = 1232            // bytes of an answer that is not split on its way
)

// errNone says that a name server says that there is no such name, or no address of it.
var errNone = errors.New("the name has no address")

// Servers are the name servers of a resolv.conf, as addresses with ports.
func Servers(file string) ([]string, error) {
	c, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the name servers: %w", err)
	}
	var out []string
	for _, s := range c.Servers {
		if ip, err := netip.ParseAddr(s); err == nil {
			port := cmp.Or(c.Port, "53")
			out = append(out, "["+ip.String()+"]:"+port)
			if ip.Is4() {
				out[len(out)-1] = ip.String() + ":" + port
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read the name servers: %s names none", file)
	}
	return out[:min(len(out), mostServers)], nil
}

// family is the result for one family, IPv4 or IPv6.
type family struct {
	found []netip.Addr
	ttl   time.Duration // for how long it counts
	err   error
}

// bothFamilies asks for the addresses of a name, of both families at once.
func bothFamilies(ctx context.Context, servers []string, host string) (out [2]family) {
	var both sync.WaitGroup
	for i, typ := range [...]uint16{dns.TypeA, dns.TypeAAAA} {
		both.Go(func() {
			f := &out[i]
			f.found, f.ttl, f.err = question(ctx, servers, host, typ)
		})
	}
	both.Wait()
	return out
}

// joined merges the answers of two families. If one fails and the other answers, the failed one keeps its previous addresses. The
// TTL is the shorter of the two; zero if one failed.
func joined(now, before [2]family) (addresses string, ttl time.Duration, err error) {
	var all []netip.Addr
	ttl = maxTTL
	none, failed := 0, error(nil)
	for i, f := range now {
		switch {
		case f.err == nil:
			all, ttl = append(all, f.found...), min(ttl, f.ttl)
		case errors.Is(f.err, errNone):
			none++
		default:
			all, ttl, failed = append(all, before[i].found...), 0, f.err
		}
	}
	answered := now[0].err == nil || now[1].err == nil
	switch {
	case none == len(now):
		return "", 0, errNone
	case !answered:
		return "", 0, failed
	}
	slices.SortFunc(all, netip.Addr.Compare)
	all = slices.Compact(all)
	texts := make([]string, min(len(all), mostAddresses))
	for i := range texts {
		texts[i] = all[i].String()
	}
	return strings.Join(texts, ","), ttl, nil
}

// question asks one server after the other, until one knows.
func question(ctx context.Context, servers []string, host string, typ uint16) (found []netip.Addr, ttl time.Duration, err error) {
	err = errors.New("there is no name server")
	for _, server := range servers {
		if found, ttl, err = exchange(ctx, server, host, typ); err == nil || errors.Is(err, errNone) {
			return found, ttl, err
		}
	}
	return nil, 0, err
}

// exchange asks one server, by UDP and if the answer is cut off by TCP.
func exchange(ctx context.Context, server, host string, typ uint16) ([]netip.Addr, time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(host), typ)
	q.SetEdns0(udpSize, false)
	a, _, err := (&dns.Client{Net: "udp", UDPSize: udpSize, Timeout: answerTime}).ExchangeContext(ctx, q, server)
	if err == nil && a.Truncated {
		a, _, err = (&dns.Client{Net: "tcp", Timeout: answerTime}).ExchangeContext(ctx, q, server)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("name server %s: %w", server, err)
	}
	switch a.Rcode {
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		return nil, 0, errNone
	default:
		return nil, 0, fmt.Errorf("name server %s: %s", server, dns.RcodeToString[a.Rcode])
	}
	return read(a.Answer, dns.Fqdn(host))
}

// read takes the addresses of a name out of an answer, by the other names (CNAME) that the answer says it has.
func read(answer []dns.RR, host string) (found []netip.Addr, ttl time.Duration, err error) {
	const mostNames = 16
	ttl = maxTTL
	names := []string{strings.ToLower(host)}
	for i := 0; i < len(names) && i < mostNames; i++ {
		for _, r := range answer {
			if !strings.EqualFold(r.Header().Name, names[i]) {
				continue
			}
			var ip netip.Addr
			switch r := r.(type) {
			case *dns.CNAME:
				if next := strings.ToLower(r.Target); !slices.Contains(names, next) {
					names = append(names, next)
				}
			case *dns.A:
				ip, _ = netip.AddrFromSlice(r.A)
			case *dns.AAAA:
				ip, _ = netip.AddrFromSlice(r.AAAA)
			default:
				continue
			}
			ttl = min(ttl, time.Duration(r.Header().Ttl)*time.Second)
			if ip = ip.Unmap(); ip.IsValid() && usable(ip) {
				found = append(found, ip)
			}
		}
	}
	if len(found) == 0 {
		return nil, 0, errNone
	}
	return found, ttl, nil
}

// usable reports whether an address can be a gateway's: not if it is unspecified, loopback, link-local unicast or multicast.
func usable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast()
}
