package mesh_test

import (
	"testing"

	"fairway/internal/mesh"
)

func TestFamilies(t *testing.T) {
	for ips, want := range map[string]mesh.Families{
		"10.0.0.1": mesh.IPv4, "10.0.0.1,10.0.0.2": mesh.IPv4, "10.0.0.1,fe80::1": mesh.IPv4, "::ffff:10.0.0.1": mesh.IPv4,
		"": mesh.IPv4, "junk": mesh.IPv4,
		"fd00::1": mesh.IPv6, "fd00::1,fd00::2": mesh.IPv6, "::1": mesh.IPv6,
		"10.0.0.1,fd00::1": mesh.DualStack, "fd00::1,10.0.0.1": mesh.DualStack,
	} {
		if got := (mesh.Proxy{IPs: ips}).Families(); got != want {
			t.Errorf("%q: %v, want %v", ips, got, want)
		}
	}
}

func TestProxyID(t *testing.T) {
	const node = "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local"
	for _, c := range []struct {
		id             mesh.ProxyID
		identity, node string
	}{
		{mesh.MakeProxyID("shop", "web", node), "shop/web", node},
		{mesh.MakeProxyID("shop", "", node), "", node},
		{mesh.ProxyID("sidecar~10.0.0.1~shop/web|x.shop~d"), "", "sidecar~10.0.0.1~shop/web|x.shop~d"},
	} {
		if c.id.Identity() != c.identity || c.id.Node() != c.node {
			t.Errorf("%s: identity %q, node %q", c.id, c.id.Identity(), c.id.Node())
		}
	}
}
