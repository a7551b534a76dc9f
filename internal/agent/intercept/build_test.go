package intercept_test

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairway/internal/agent/intercept"
	"fairway/internal/golden"
)

// cases are options of each kind, by the name of their golden file.
func cases() map[string]intercept.Options {
	sidecar := intercept.DefaultOptions()
	sidecar.InboundPorts.All = true
	sidecar.InboundPortsExclude = []uint16{15090, 15021, 15020}
	sidecar.OutboundNetworks.All = true

	transparent := sidecar
	transparent.Mode, transparent.IPv6 = intercept.TProxy, true

	unnamed := sidecar // the proxy's own ports are not named
	unnamed.InboundPortsExclude, unnamed.IPv6 = nil, true
	unnamedTransparent := transparent
	unnamedTransparent.InboundPortsExclude = []uint16{22, 15021}

	named := intercept.DefaultOptions()
	named.IPv6, named.DropInvalid = true, true
	named.InboundPorts.List = []uint16{80, 15021, 8080}
	named.OutboundNetworks.List = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/16")}
	named.OutboundNetworkExclude = []netip.Prefix{netip.MustParsePrefix("10.96.9.0/24")}
	named.OutboundPorts, named.OutboundPortsExclude = []uint16{443}, []uint16{25}
	named.OutboundGroups = intercept.Groups{List: []uint32{7, 8}}
	named.ExcludeInterfaces, named.VirtualInterfaces = []string{"docker+"}, []string{"net1"}
	named.ProxyUIDs, named.ProxyGIDs, named.TunnelPort = []uint32{1, 2}, []uint32{3}, 0

	dns := intercept.DefaultOptions()
	dns.IPv6, dns.RedirectDNS = true, true
	dns.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.53"), netip.MustParseAddr("fe80::53%eth0")}

	return map[string]intercept.Options{
		"sidecar":             sidecar,
		"transparent":         transparent,
		"named":               named,
		"unnamed":             unnamed,
		"unnamed-transparent": unnamedTransparent,
		"dns":                 dns,
		"nothing":             intercept.DefaultOptions(),
	}
}

func TestRules(t *testing.T) {
	for name, o := range cases() {
		for _, b := range []intercept.Backend{intercept.Nftables, intercept.Iptables} {
			t.Run(name+" "+string(b), func(t *testing.T) {
				var got bytes.Buffer
				if err := intercept.Print(&got, o, b); err != nil {
					t.Fatal(err)
				}
				golden.File(t, filepath.Join("testdata", name+"."+string(b)), got.String())
			})
		}
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*intercept.Options){
		"neither REDIRECT nor TPROXY": func(o *intercept.Options) { o.Mode = "NONE" },
		"must not be 0":               func(o *intercept.Options) { o.InboundPort = 0 },
		"come back to it for ever":    func(o *intercept.Options) { o.ProxyUIDs, o.ProxyGIDs = nil, nil },
		"needs a mark":                func(o *intercept.Options) { o.Mode, o.Mark = intercept.TProxy, 0 },
		"the machine's own":           func(o *intercept.Options) { o.Mode, o.RouteTable = intercept.TProxy, 254 },
		"needs a name server":         func(o *intercept.Options) { o.RedirectDNS = true },
		"not a name of a network":     func(o *intercept.Options) { o.ExcludeInterfaces = []string{"a b"} },
		"\"x;y/z\" is not a name":     func(o *intercept.Options) { o.VirtualInterfaces = []string{"x;y/z"} },
	} {
		o := intercept.DefaultOptions()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for name, o := range cases() {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParse(t *testing.T) {
	ports, err := intercept.ParsePorts(" 80, 443,,80")
	if diff := cmp.Diff(intercept.Ports{List: []uint16{80, 443}}, ports); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if all, err := intercept.ParsePorts(" * "); !all.All || err != nil {
		t.Errorf("%v %v", all, err)
	}
	networks, err := intercept.ParseNetworks("10.1.2.3/8,192.0.2.1,fd00::1/64")
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("fd00::/64")}
	if err != nil || len(networks.List) != 3 || networks.List[0] != want[0] || networks.List[1] != want[1] || networks.List[2] != want[2] {
		t.Errorf("%v %v", networks, err)
	}
	for _, bad := range []string{"0", "65536", "80-90", "x"} {
		if _, err := intercept.ParsePorts(bad); err == nil {
			t.Errorf("port %q is taken", bad)
		}
	}
	for _, bad := range []string{"10.0.0.0/33", "*,10.0.0.0/8", "host"} {
		if _, err := intercept.ParseNetworks(bad); err == nil {
			t.Errorf("network %q is taken", bad)
		}
	}
	ids, err := intercept.ParseIDs("7,staff", func(name string) (string, error) { return map[string]string{"staff": "50"}[name], nil })
	if diff := cmp.Diff(intercept.Groups{List: []uint32{7, 50}}, ids); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
