package intercept

import (
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"fairway/internal/agent/intercept"
)

// everyBackend runs a test with each back-end, in a world of its own.
func everyBackend(t *testing.T, test func(*testing.T, *world, intercept.Backend)) {
	for _, b := range []intercept.Backend{intercept.Nftables, intercept.IptablesNft, intercept.IptablesLegacy} {
		t.Run(string(b), func(t *testing.T) {
			needPrograms(t, b)
			test(t, newWorld(t), b)
		})
	}
}

func needPrograms(t *testing.T, b intercept.Backend) {
	t.Helper()
	if b == intercept.Nftables {
		return
	}
	suffix := strings.TrimPrefix(string(b), "iptables") + "-restore"
	for _, family := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(family + suffix); err != nil {
			t.Skipf("this machine has no %s (apt-get install iptables)", family+suffix)
		}
	}
}

// everything intercepts all but what the tests dial to see that it is left alone.
func everything(mode intercept.Mode) intercept.Options {
	o := intercept.DefaultOptions()
	o.Mode = mode
	o.IPv6 = true
	o.InboundPorts.All = true
	o.InboundPortsExclude = []uint16{8022}
	o.OutboundNetworks.All = true
	o.OutboundNetworkExclude = []netip.Prefix{netip.MustParsePrefix("10.97.0.0/16"), netip.MustParsePrefix("fd97::/16")}
	o.OutboundPortsExclude = []uint16{9999}
	o.OutboundGroupsExclude = []uint32{2000}
	return o
}

func apply(t *testing.T, w *world, o intercept.Options, b intercept.Backend) intercept.Result {
	t.Helper()
	r, err := tryApply(t, w, o, b)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return r
}

func tryApply(t *testing.T, w *world, o intercept.Options, b intercept.Backend) (r intercept.Result, err error) {
	t.Helper()
	w.workload.Do(t, func() { r, err = intercept.Apply(t.Context(), o, b) })
	return r, err
}

func cleanup(t *testing.T, w *world) intercept.Result {
	t.Helper()
	var r intercept.Result
	var err error
	w.workload.Do(t, func() { r, err = intercept.Cleanup(t.Context()) })
	if err != nil {
		t.Fatalf("clean up: %v", err)
	}
	return r
}

func TestConnections(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		for _, mode := range []intercept.Mode{intercept.Redirect, intercept.TProxy} {
			t.Run(string(mode), func(t *testing.T) {
				if r := apply(t, w, everything(mode), b); r.Backend != b || !r.Changed {
					t.Errorf("applied %+v", r)
				}
				var in []socketOption
				if mode == intercept.TProxy {
					in = []socketOption{transparent, transparentV6}
				}
				w.workload.serve(t, "outbound", ":15001")
				w.workload.serve(t, "inbound", ":15006", in...)
				for _, port := range []string{"8080", "8022", "15020", "15008"} {
					w.workload.serve(t, "app", ":"+port)
				}
				for _, port := range []string{"80", "9999"} {
					w.outside.serve(t, "outside", ":"+port)
				}
				t.Run("IPv4", func(t *testing.T) {
					connections(t, w, mode, addresses{"10.96.0.10", "10.97.0.10", "10.0.0.2", "10.0.0.1", "127.0.0.1", "127.0.0.6"})
				})
				t.Run("IPv6", func(t *testing.T) {
					connections(t, w, mode, addresses{"fd96::10", "fd97::10", "fd00::2", "fd00::1", "::1", "::6"})
				})
			})
		}
	})
}

// addresses are a family's.
type addresses struct{ vip, excluded, workload, outside, loopback, source string }

func connections(t *testing.T, w *world, mode intercept.Mode, a addresses) {
	at := func(ip, port string) string { return netip.MustParseAddr(ip).String() + ":" + port }
	if strings.Contains(a.vip, ":") {
		at = func(ip, port string) string { return "[" + ip + "]:" + port }
	}
	for _, c := range []struct {
		name     string
		n        *namespace
		as       who
		from, to string
		want     string
		options  []socketOption
	}{
		{"a service's address", w.workload, app, "", at(a.vip, "80"), "outbound " + at(a.vip, "80") + " from " + a.workload, nil},
		{"the proxy's user", w.workload, proxyUser, "", at(a.vip, "80"), "outside " + at(a.vip, "80") + " from " + a.workload, nil},
		{"the proxy's group", w.workload, proxyGroup, "", at(a.vip, "80"), "outside " + at(a.vip, "80") + " from " + a.workload, nil},
		{"an excluded group", w.workload, who{1000, 2000}, "", at(a.vip, "80"), "outside " + at(a.vip, "80") + " from " + a.workload, nil},
		{"an excluded port", w.workload, app, "", at(a.vip, "9999"), "outside " + at(a.vip, "9999") + " from " + a.workload, nil},
		{"an excluded network", w.workload, app, "", at(a.excluded, "80"), "outside " + at(a.excluded, "80") + " from " + a.workload, nil},
		{"loopback", w.workload, app, "", at(a.loopback, "8080"), "app " + at(a.loopback, "8080") + " from " + a.loopback, nil},
		{
			"the proxy to loopback", w.workload, proxyUser, "", at(a.loopback, "8080"),
			"app " + at(a.loopback, "8080") + " from " + a.loopback, nil,
		},
		{"the app to itself", w.workload, app, "", at(a.workload, "8080"), "app " + at(a.workload, "8080") + " from " + a.workload, nil},
		{
			"the app to itself through the proxy", w.workload, proxyUser, "", at(a.workload, "8080"),
			"inbound " + at(a.workload, "8080") + " from " + a.workload, nil,
		},
		{
			"the same by the proxy's group", w.workload, proxyGroup, "", at(a.workload, "8080"),
			"inbound " + at(a.workload, "8080") + " from " + a.workload, nil,
		},
		{
			"from the proxy's inbound side", w.workload, proxyUser, a.source, at(a.workload, "8080"),
			"app " + at(a.workload, "8080") + " from " + a.source, nil,
		},
		{"inbound", w.outside, app, "", at(a.workload, "8080"), "inbound " + at(a.workload, "8080") + " from " + a.outside, nil},
		{
			"inbound to a port where nothing listens", w.outside, app, "", at(a.workload, "7777"),
			"inbound " + at(a.workload, "7777") + " from " + a.outside, nil,
		},
		{
			"inbound to an excluded port", w.outside, app, "", at(a.workload, "8022"),
			"app " + at(a.workload, "8022") + " from " + a.outside, nil,
		},
		{
			"inbound to a port of the proxy's own, which nobody excluded", w.outside, app, "", at(a.workload, "15020"),
			"app " + at(a.workload, "15020") + " from " + a.outside, nil,
		},
		{
			"inbound to the tunnel's port", w.outside, app, "", at(a.workload, "15008"),
			"app " + at(a.workload, "15008") + " from " + a.outside, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.n.dial(t, c.as, c.from, c.to, c.options...); got != c.want {
				t.Errorf("reached %q, want %q", got, c.want)
			}
		})
	}
	if mode == intercept.TProxy {
		t.Run("the proxy with its client's address", func(t *testing.T) {
			want := "app " + at(a.workload, "8080") + " from " + a.outside
			if got := w.workload.dial(t, proxyUser, a.outside, at(a.workload, "8080"), transparent, transparentV6, marked); got != want {
				t.Errorf("reached %q, want %q", got, want)
			}
		})
	}
}

// TestMixed: rules of one back-end are not joined by those of another.
func TestMixed(t *testing.T) {
	everyBackend(t, func(t *testing.T, w *world, b intercept.Backend) {
		o := everything(intercept.Redirect)
		apply(t, w, o, b)
		before := w.workload.snapshot(t)
		for _, other := range []intercept.Backend{intercept.Nftables, intercept.IptablesNft, intercept.IptablesLegacy} {
			if _, err := tryApply(t, w, o, other); other != b && !errors.Is(err, intercept.ErrMixed) {
				t.Errorf("%s beside %s: %v", other, b, err)
			}
		}
		if r := apply(t, w, o, intercept.Auto); r.Backend != b || r.Changed {
			t.Errorf("auto chose %+v", r)
		}
		if got := w.workload.snapshot(t); got != before {
			t.Errorf("there was\n%s\nand now there is\n%s", before, got)
		}
	})
}
