package mesh_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"fairway/internal/mesh"
)

func TestReachOf(t *testing.T) {
	for want, addresses := range map[mesh.Reach][]string{
		mesh.OnMachine: {
			"127.0.0.1", "127.0.0.6", "127.255.255.254", "0.0.0.0", "0.1.2.3", "::1", "::", "0:0:0:0:0:0:0:1",
			"::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "::1%lo", "[::1]",
			"64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "::ffff:0:127.0.0.1", "2002:7f00:1::",
			"::ffff:0.0.0.0", "127.0.0.0/8",
			"localhost", "LocalHost.", "a.b.localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback",
			"127.1", "127.0.1", "0x7f.1", "0x7f000001", "0X7F.0.0.1", "2130706433", "0177.0.0.1", "017700000001", "127.0.0.1.",
			"0", "0.", "0..", "0x", "127.000.000.001", " 127.0.0.1", "4294967296",
		},
		mesh.Cloud: {
			"fd00:ec2::254", "fd20:ce::254", "fd20:00ce::254%eth0", "100.100.100.200", "100.100.25800",
			"168.63.129.16", "::ffff:168.63.129.16",
			"64:ff9b::100.100.100.200", "metadata.google.internal", "Metadata.Google.Internal.", "instance-data",
			"instance-data.ec2.internal",
		},
		mesh.OnLink: {
			"169.254.169.254", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.1.1", "64:ff9b::169.254.169.254",
			"0xa9fea9fe", "169.254.43518",
		},
		mesh.Socket: {"unix:///var/run/x.sock", "unix://@abstract", "unix:/x", "/x", "@x"},
		mesh.Anywhere: {
			"10.0.0.1", "240.240.0.1", "fd00::1", "reviews.shop.svc.cluster.local", "localhost.example.com",
			"notlocalhost", "metadata", "100.100.100.201", "fd00:ec2::253", "1.2.3.4.5", "v1", "64:ff9b::10.0.0.1", "a.1", "", "0xg",
		},
	} {
		for _, a := range addresses {
			if got := mesh.ReachOf(a); got != want {
				t.Errorf("%q is %s, want %s", a, got, want)
			}
		}
	}
}

func TestGuarded(t *testing.T) {
	for _, c := range []struct {
		address string
		port    uint32
		want    bool
	}{
		{"127.0.0.1", 15000, true}, {"::1", 15020, true}, {"localhost", 15053, true}, {"0x7f.1", 15090, true},
		{"127.0.0.1", 8080, false}, {"127.0.0.1", 19000, true}, {"10.0.0.1", 15020, false},
		{"unix:///etc/istio/proxy/SDS", 0, true}, {"unix:///a/XDS", 0, true}, {"unix:///srv/agent/../agent/hot", 0, true},
		{"unix:///proc/1/root/x", 0, true}, {"unix://relative", 0, true},
		{
			"unix:///var/run/secrets/workload-spiffe-uds/socket", 0, true,
		}, {"unix:///run/spire/sockets/agent.sock", 0, true}, {"unix://@envoy_domain_socket_parent_0", 0, true},
		{"unix:///var/run/app.sock", 0, false}, {"unix://@app", 0, false}, {"unix:///srv/agents/x", 0, false},
	} {
		if got := mesh.Guarded(c.address, c.port, []uint32{19000}, "./srv/agent"); got != c.want {
			t.Errorf("%s port %d is guarded: %t, want %t", c.address, c.port, got, c.want)
		}
	}
}

// FuzzReachOf checks two things. A text that the standard library reads as an address has that address's reach. And a loopback or
// link-local address has its reach in every notation.
func FuzzReachOf(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "::ffff:127.0.0.1", "0x7f.1", "localhost.", "169.254.1.2", "[::1%lo]", "64:ff9b::7f00:1"} {
		f.Add(s, uint32(0x7f000001))
	}
	f.Fuzz(func(t *testing.T, s string, n uint32) {
		got := mesh.ReachOf(s)
		if a, err := netip.ParseAddr(s); err == nil && near(a) && got < mesh.OnLink {
			t.Errorf("%q is %s", s, got)
		}
		if tcp, err := net.ResolveTCPAddr("tcp",
			net.JoinHostPort(s, "80")); isLiteral(s) && err == nil && near(tcp.AddrPort().Addr()) &&
			got < mesh.OnLink {
			t.Errorf("%q, which is dialled at %s, is %s", s, tcp, got)
		}
		want := mesh.Anywhere
		a, b, c, d := n>>24, n>>16&0xff, n>>8&0xff, n&0xff
		if ip := netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)}); ip.IsLinkLocalUnicast() {
			want = mesh.OnLink
		} else if near(ip) || a == 0 {
			want = mesh.OnMachine
		}
		for _, form := range []string{
			fmt.Sprintf("%d.%d.%d.%d", a, b, c, d), fmt.Sprintf("%d", n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0%o", n),
			fmt.Sprintf("%d.%d", a, n&0xffffff), fmt.Sprintf("%d.%d.%d.", a, b, n&0xffff),
			fmt.Sprintf("0x%X.0%o.%d.0x%x", a, b, c, d), fmt.Sprintf("::ffff:%d.%d.%d.%d", a, b, c, d),
			fmt.Sprintf("64:ff9b::%x:%x", n>>16, n&0xffff), fmt.Sprintf("2002:%x:%x::", n>>16, n&0xffff),
		} {
			if got := mesh.ReachOf(form); got < want {
				t.Errorf("%s, written as %s, is %s, want %s", netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)}), form, got, want)
			}
		}
	})
}

func near(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast()
}

// isLiteral keeps the oracle from asking a name server.
func isLiteral(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
