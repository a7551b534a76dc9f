package parents

import (
	"cmp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/mesh"
)

// Common returns the hosts that a route and a listener have in common (HTTPRouteSpec.hostnames): the narrower of both where one covers the
// other.
func Common(listener mesh.Host, hostnames []gatewayv1.Hostname) (out []mesh.Host) {
	if len(hostnames) == 0 {
		return []mesh.Host{listener}
	}
	for _, h := range hostnames {
		switch host := HostOf(string(h)); {
		case listener.Matches(host):
			out = append(out, host)
		case host.Matches(listener):
			out = append(out, listener)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Within returns the hostname of a route that has a host: the narrowest one, if several have it.
func Within(host mesh.Host, hostnames []gatewayv1.Hostname) mesh.Host {
	out := mesh.Host("*")
	for _, h := range hostnames {
		if name := HostOf(string(h)); name.Matches(host) && mesh.CompareWidth(name, out) < 0 {
			out = name
		}
	}
	return out
}

// Below returns the hosts that each wildcard among them covers, sorted; a wildcard that covers none is left out.
func Below(hosts []mesh.Host) map[mesh.Host][]mesh.Host {
	out := map[mesh.Host][]mesh.Host{}
	slices.Sort(hosts)
	for _, host := range hosts {
		for _, above := range host.Wildcards() {
			if _, has := slices.BinarySearch(hosts, above); has {
				out[above] = append(out[above], host)
			}
		}
	}
	return out
}

// HostOf returns the host that a hostname means; empty: every host.
func HostOf(name string) mesh.Host { return mesh.Host(cmp.Or(name, "*")) }
