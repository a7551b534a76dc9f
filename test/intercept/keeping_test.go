package intercept

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fairway/internal/agent/intercept"
)

// foreign adds rules of another program: a table of nft's, or rules at each place where iptables' tables get one of
// ours. (If a place does not exist, iptables' programs make it, and leave it, empty.)
func foreign(t *testing.T, w *world, b intercept.Backend) {
	t.Helper()
	if b == intercept.Nftables {
		w.workload.Do(t, func() { foreignTable(t) })
		return
	}
	w.workload.Do(t, func() {
		for _, family := range []string{"iptables", "ip6tables"} {
			cmd := exec.Command(family + strings.TrimPrefix(string(b), "iptables") + "-restore")
			cmd.Stdin = strings.NewReader(`*raw
-A OUTPUT -p udp --dport 99 -j ACCEPT
-A PREROUTING -p udp --dport 99 -j ACCEPT
COMMIT
*mangle
-A PREROUTING -p tcp --dport 98 -j ACCEPT
-A OUTPUT -p tcp --dport 98 -j ACCEPT
COMMIT
*nat
:OTHERS - [0:0]
-A PREROUTING -p tcp --dport 97 -j OTHERS
-A OUTPUT -p tcp --dport 96 -j REDIRECT --to-ports 95
-A OTHERS -j RETURN
COMMIT
`)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("rules of others: %v: %s", err, out)
			}
		}
	})
}

// TestCleanup: cleaning up restores the earlier state, byte for byte, whatever was applied in between.
func TestCleanup(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		foreign(t, w, b)
		before := w.workload.snapshot(t)
		if r := cleanup(t, w); r.Changed || w.workload.snapshot(t) != before {
			t.Errorf("cleaning up what is not there did %+v", r)
		}
		for _, o := range variety() {
			apply(t, w, o, b)
		}
		apply(t, w, everything(intercept.TProxy), b)
		if w.workload.snapshot(t) == before {
			t.Error("nothing was applied")
		}
		if r := cleanup(t, w); !r.Changed || r.Backend != b {
			t.Errorf("cleanup did %+v", r)
		}
		if got := w.workload.snapshot(t); got != before {
			t.Errorf("after cleanup there is\n%s\nbefore there was\n%s", got, before)
		}
	})
}

// variety is options of all kinds.
func variety() []intercept.Options {
	named := everything(intercept.Redirect)
	named.InboundPorts = intercept.Ports{List: []uint16{80, 8080}}
	named.OutboundNetworks = intercept.Networks{List: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.1/32"),
	}}
	named.OutboundPorts = []uint16{443}
	named.OutboundGroups = intercept.Groups{List: []uint32{1, 2}}
	named.ExcludeInterfaces = []string{"eth7", "docker+"}
	named.VirtualInterfaces = []string{"net0"}
	named.DropInvalid = true
	transparentNamed := named
	transparentNamed.Mode = intercept.TProxy
	transparentNamed.Mark, transparentNamed.RouteTable = 77, 1000
	dns := everything(intercept.TProxy)
	dns.RedirectDNS, dns.CaptureAllDNS = true, true
	servers := dns
	servers.CaptureAllDNS = false
	servers.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.53"), netip.MustParseAddr("fd96::53")}
	many := everything(intercept.Redirect)
	for port := range uint16(500) {
		many.InboundPortsExclude = append(many.InboundPortsExclude, 20000+port)
		many.OutboundPortsExclude = append(many.OutboundPortsExclude, 20000+port)
	}
	return []intercept.Options{
		many,
		everything(intercept.Redirect),
		everything(intercept.TProxy),
		named,
		transparentNamed,
		dns,
		servers,
		intercept.DefaultOptions(),
	}
}

// TestAgain: a second apply changes nothing, and repairs rules that were removed.
func TestAgain(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		for i, o := range variety() {
			apply(t, w, o, b)
			generation, before := w.workload.generation(t), w.workload.snapshot(t)
			if r := apply(t, w, o, b); r.Changed {
				t.Errorf("options %d: applied again, it did %+v", i, r)
			}
			if w.workload.generation(t) != generation || w.workload.snapshot(t) != before {
				t.Errorf("options %d: applied again, there is another state", i)
			}
		}
	})
}

// TestRepair: a rule that is gone comes back.
func TestRepair(t *testing.T) {
	w := newWorld(t)
	o := everything(intercept.Redirect)
	apply(t, w, o, intercept.Nftables)
	w.workload.Do(t, func() { removeOneRule(t) })
	if r := apply(t, w, o, intercept.Nftables); !r.Changed {
		t.Error("a rule that is gone was not missed")
	}
	if r := apply(t, w, o, intercept.Nftables); r.Changed {
		t.Error("and is missed still")
	}
}

// TestNoPermission: without CAP_NET_ADMIN it says so and changes nothing.
func TestNoPermission(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		before := w.workload.snapshot(t)
		var applied, cleaned error
		w.workload.Do(t, func() {
			dropNetAdmin(t)
			_, applied = intercept.Apply(t.Context(), everything(intercept.TProxy), b)
			_, cleaned = intercept.Cleanup(t.Context())
		})
		for _, err := range []error{applied, cleaned} {
			if !errors.Is(err, intercept.ErrPermission) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
				t.Errorf("without the capability: %v", err)
			}
		}
		if w.workload.snapshot(t) != before {
			t.Error("something was changed")
		}
	})
}

// dropNetAdmin drops the capability of this thread, and of the programs that it starts.
func dropNetAdmin(t *testing.T) {
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_ADMIN, 0, 0, 0); err != nil {
		t.Errorf("drop from the bounding set: %v", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Errorf("read capabilities: %v", err)
	}
	data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	data[0].Permitted &^= 1 << unix.CAP_NET_ADMIN
	if err := unix.Capset(&header, &data[0]); err != nil {
		t.Errorf("drop capabilities: %v", err)
	}
}

// TestNoHalfState: if it fails half-way, the state is as before.
func TestNoHalfState(t *testing.T) {
	t.Run("routes", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("network namespaces need root")
		}
		w := &world{workload: newNamespace(t)} // with loopback down, no local route can exist
		before := w.workload.snapshot(t)
		if _, err := tryApply(t, w, everything(intercept.TProxy), intercept.Nftables); err == nil {
			t.Error("TPROXY without loopback worked")
		}
		if w.workload.snapshot(t) != before {
			t.Error("something was left")
		}
	})
	for _, b := range []intercept.Backend{intercept.IptablesNft, intercept.IptablesLegacy} {
		t.Run(string(b), func(t *testing.T) {
			needPrograms(t, b)
			w := newWorld(t)
			foreign(t, w, b)
			apply(t, w, everything(intercept.Redirect), b)
			before := w.workload.saved(t, b)
			t.Setenv("PATH", failing(t, "ip6tables"+strings.TrimPrefix(string(b), "iptables")+"-restore"))
			_, err := tryApply(t, w, everything(intercept.TProxy), b)
			if err == nil || !strings.Contains(err.Error(), "no such luck") {
				t.Errorf("with a failing program: %v", err)
			}
			if got := w.workload.saved(t, b); got != before {
				t.Errorf("after a failure there is\n%s\nbefore there was\n%s", got, before)
			}
		})
	}
}

// failing returns a PATH with one program that fails, and all others unchanged.
func failing(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho no such luck >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}
