package intercept

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"fairway/internal/agent/intercept"
)

// snapshot is all of a namespace's tables, chains, rules, routes and routing rules as the kernel tells them, byte for
// byte; and what only iptables-legacy sees.
func (n *namespace) snapshot(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	n.Do(t, func() {
		for _, kind := range []int{unix.NFT_MSG_GETTABLE, unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_GETRULE, unix.NFT_MSG_GETSET} {
			dump(t, &b, unix.NETLINK_NETFILTER, uint16(unix.NFNL_SUBSYS_NFTABLES<<8|kind), []byte{unix.AF_UNSPEC, 0, 0, 0})
		}
		dumpRoutes(t, &b)
		save(t, &b, intercept.IptablesLegacy)
	})
	return b.String()
}

// saved is what the programs of a variant tell, which is the same for rules that were removed and made again; and all
// routes and routing rules.
func (n *namespace) saved(t *testing.T, variant intercept.Backend) string {
	t.Helper()
	var b strings.Builder
	n.Do(t, func() {
		dumpRoutes(t, &b)
		save(t, &b, variant)
	})
	return b.String()
}

func dumpRoutes(t *testing.T, b *strings.Builder) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, kind := range []uint16{unix.RTM_GETROUTE, unix.RTM_GETRULE} {
			dump(t, b, unix.NETLINK_ROUTE, kind, append([]byte{family}, make([]byte, unix.SizeofRtMsg-1)...))
		}
	}
}

// dump leaves out what the kernel counts while it runs: an attribute of routes (RTA_CACHEINFO), and the generation in netfilter's header.
func dump(t *testing.T, b *strings.Builder, protocol int, kind uint16, header []byte) {
	c, err := netlink.Dial(protocol, nil)
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	defer c.Close()
	all, err := c.Execute(
		netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | netlink.Dump}, Data: header})
	if err != nil {
		t.Errorf("list %#x: %v", kind, err)
	}
	for _, m := range all {
		data := m.Data
		if protocol == unix.NETLINK_NETFILTER {
			data = append(append([]byte{}, data[:2]...), data[4:]...)
		}
		if kind == unix.RTM_GETROUTE {
			data = withoutAttribute(t, data, unix.SizeofRtMsg, unix.RTA_CACHEINFO)
		}
		fmt.Fprintf(b, "%#x %q\n", kind, data)
	}
}

func withoutAttribute(t *testing.T, data []byte, header int, kind uint16) []byte {
	attributes, err := netlink.UnmarshalAttributes(data[header:])
	if err != nil {
		t.Errorf("read a route: %v", err)
	}
	out := append(append([]byte{}, data[:header-4]...), 0, 0, 0, 0) // without flags: whether the cable was seen to be plugged in
	for _, a := range attributes {
		if a.Type != kind {
			out = fmt.Appendf(out, "%d=%x ", a.Type, a.Data)
		}
	}
	return out
}

// counters are what iptables-save prints that changes by itself.
var counters = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]`)

func save(t *testing.T, b *strings.Builder, variant intercept.Backend) {
	for _, family := range []string{"iptables", "ip6tables"} {
		name := family + strings.TrimPrefix(string(variant), "iptables") + "-save"
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		out, err := exec.Command(name).Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.Write(counters.ReplaceAll(out, nil))
	}
}

// generation counts the transactions that changed a namespace's nf_tables.
func (n *namespace) generation(t *testing.T) string {
	t.Helper()
	var out string
	n.Do(t, func() {
		c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
		if err != nil {
			t.Errorf("connect: %v", err)
			return
		}
		defer c.Close()
		all, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request}, Data: make([]byte, 4),
		})
		if err != nil || len(all) == 0 {
			t.Errorf("ask for the generation: %v", err)
			return
		}
		attributes, err := netlink.UnmarshalAttributes(all[0].Data[4:])
		if err != nil {
			t.Errorf("read the generation: %v", err)
		}
		for _, a := range attributes {
			if a.Type == unix.NFTA_GEN_ID {
				out = string(a.Data)
			}
		}
	})
	return out
}
