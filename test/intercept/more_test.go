package intercept

import (
	"net/netip"
	"testing"

	"fairway/internal/agent/intercept"
)

// TestNamed: only the named ports, networks and groups are intercepted.
func TestNamed(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		o := intercept.DefaultOptions()
		o.IPv6 = true
		o.InboundPorts.List = []uint16{8080}
		o.OutboundNetworks.List = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/16")}
		o.OutboundPorts = []uint16{443}
		o.OutboundGroups = intercept.Groups{List: []uint32{1000, 2000}}
		apply(t, w, o, b)
		w.workload.serve(t, "outbound", ":15001")
		w.workload.serve(t, "inbound", ":15006")
		w.workload.serve(t, "app", ":8081")
		w.outside.serve(t, "outside", ":80")
		w.outside.serve(t, "outside", ":443")
		other := who{1000, 3000}
		for _, c := range []struct {
			n        *namespace
			as       who
			to, want string
		}{
			{w.workload, app, "10.96.0.10:80", "outbound 10.96.0.10:80 from 10.0.0.2"},
			{w.workload, app, "10.97.0.10:80", "outside 10.97.0.10:80 from 10.0.0.2"},
			{w.workload, app, "10.97.0.10:443", "outbound 10.97.0.10:443 from 10.0.0.2"},
			{w.workload, who{5, 2000}, "10.96.0.10:80", "outbound 10.96.0.10:80 from 10.0.0.2"},
			{w.workload, other, "10.96.0.10:80", "outside 10.96.0.10:80 from 10.0.0.2"},
			{w.workload, app, "[fd96::10]:80", "outbound [fd96::10]:80 from fd00::2"},
			{w.workload, app, "[fd97::10]:80", "outside [fd97::10]:80 from fd00::2"},
			{w.workload, app, "[fd97::10]:443", "outbound [fd97::10]:443 from fd00::2"},
			{w.outside, app, "10.0.0.2:8080", "inbound 10.0.0.2:8080 from 10.0.0.1"},
			{w.outside, app, "10.0.0.2:8081", "app 10.0.0.2:8081 from 10.0.0.1"},
			{w.outside, app, "[fd00::2]:8080", "inbound [fd00::2]:8080 from fd00::1"},
			{w.outside, app, "[fd00::2]:8081", "app [fd00::2]:8081 from fd00::1"},
		} {
			if got := c.n.dial(t, c.as, "", c.to); got != c.want {
				t.Errorf("%v to %s reached %q, want %q", c.as, c.to, got, c.want)
			}
		}
	})
}

// TestInterfaces: some are left alone, and what guests send by theirs is outbound.
func TestInterfaces(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		w.workload.serve(t, "outbound", ":15001")
		w.workload.serve(t, "inbound", ":15006", transparent, transparentV6)
		w.workload.serve(t, "app", ":8080")
		w.outside.serve(t, "outside", ":80")
		for _, mode := range []intercept.Mode{intercept.Redirect, intercept.TProxy} {
			for _, name := range []string{"eth0", "eth+"} {
				o := everything(mode)
				o.ExcludeInterfaces = []string{name}
				apply(t, w, o, b)
				if got, want := w.workload.dial(t, app, "", "10.96.0.10:80"), "outside 10.96.0.10:80 from 10.0.0.2"; got != want {
					t.Errorf("%s without %s: reached %q, want %q", mode, name, got, want)
				}
				if got, want := w.outside.dial(t, app, "", "[fd00::2]:8080"), "app [fd00::2]:8080 from fd00::1"; got != want {
					t.Errorf("%s without %s: reached %q, want %q", mode, name, got, want)
				}
			}
			o := everything(mode)
			o.VirtualInterfaces = []string{"eth0"}
			apply(t, w, o, b)
			if got, want := w.outside.dial(t, app, "", "10.98.0.7:80"), "outbound 10.98.0.7:80 from 10.0.0.1"; got != want {
				t.Errorf("%s: a guest reached %q, want %q", mode, got, want)
			}
		}
	})
}

// TestDNS: queries go to the DNS proxy and its own go out, also where both have the same address and port.
func TestDNS(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		w.workload.answer(t, "dns", "127.0.0.1:15053")
		w.workload.answer(t, "dns", "[::1]:15053")
		w.workload.serve(t, "dns", ":15053")
		w.workload.serve(t, "outbound", ":15001")
		for _, ip := range []string{"10.96.0.53", "[fd96::53]", "10.97.0.10"} {
			w.outside.answer(t, "server", ip+":53")
		}
		w.outside.serve(t, "server", ":53")
		o := everything(intercept.Redirect)
		o.RedirectDNS = true
		o.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.53"), netip.MustParseAddr("fd96::53")}
		apply(t, w, o, b)
		t.Run("servers", func(t *testing.T) {
			queries(t, w, "10.0.0.2:5555", "10.96.0.53:53")
			queries(t, w, "[fd00::2]:5555", "[fd96::53]:53")
			if got := ask(t, w.workload.socket(t, app, "", "10.97.0.10:53")); got != "server" {
				t.Errorf("a server that is not the machine's: answered by %q", got)
			}
		})
		o.CaptureAllDNS = true
		apply(t, w, o, b)
		t.Run("all", func(t *testing.T) {
			queries(t, w, "10.0.0.2:6666", "10.96.0.53:53")
			if got := ask(t, w.workload.socket(t, app, "", "10.97.0.10:53")); got != "dns" {
				t.Errorf("any server: answered by %q", got)
			}
		})
	})
}

func queries(t *testing.T, w *world, from, to string) {
	t.Helper()
	for range 3 { // the kernel remembers each for longer than this takes
		for id, want := range map[who]string{app: "dns", proxyUser: "server", proxyGroup: "server"} {
			c := w.workload.socket(t, id, from, to)
			if got := ask(t, c); got != want {
				t.Errorf("a query of %v is answered by %q, want %q", id, got, want)
			}
			c.Close()
		}
	}
	server := netip.MustParseAddrPort(to)
	if got, want := w.workload.dial(t, app, "", to), "dns "+server.String(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("the workload's query by TCP reached %q", got)
	}
	if got, want := w.workload.dial(t, proxyUser, "", to), "server "+server.String(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("the proxy's query by TCP reached %q", got)
	}
}
