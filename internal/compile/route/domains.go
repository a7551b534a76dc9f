package route

import (
	"slices"
	"strings"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// domains lists the names and addresses that stand for a host in a route configuration of a layer. Of a name or address
// that two hosts of it would have, the one whose own name it is gets it, then the older one: Envoy refuses a
// configuration with two. They are those that clients of a cluster use; "" is no cluster.
func (t *Tables) domains(r *table.Reader, k scope.Key, s *mesh.Service, in, cluster string) []string {
	var addresses []string
	if s != nil {
		addresses = s.AddressesIn(cluster)
		if vip := t.reg.VIP(r, s); vip != "" {
			addresses = []string{vip}
		}
	}
	suffix := t.in.DomainSuffix()
	all := route.Domains(k.Host, k.Layer.Namespace, suffix, addresses)
	short := len(route.ShortForms(k.Host, k.Layer.Namespace, suffix))
	out := all[:1]
	for i, d := range all[1:] {
		if i < short && t.named(r, k.Layer, mesh.Host(d), in) || i >= short && t.firstAt(r, k, s, d, in, cluster) {
			continue
		}
		out = append(out, d)
	}
	return out
}

// named says whether the route configuration has a host of that very name.
func (t *Tables) named(r *table.Reader, l mesh.Layer, host mesh.Host, in string) bool {
	k, seen, ok := t.seen(r, l, host)
	return ok && slices.ContainsFunc(t.places(r, k, seen), func(p place) bool { return p.route == in })
}

// seen reads a layer, and what is below it.
func (t *Tables) seen(r *table.Reader, l mesh.Layer, host mesh.Host) (scope.Key, *scope.Seen, bool) {
	k := scope.Key{Layer: l, Host: host}
	s, ok := table.Get(r, t.sc.Seen, k)
	if !ok && l.Kind == mesh.NamespaceLayer {
		k.Layer = mesh.Public
		s, ok = table.Get(r, t.sc.Seen, k)
	}
	return k, s, ok && !s.Destination
}

// firstAt says whether another service of the route configuration goes first at the address, for clients of a cluster.
func (t *Tables) firstAt(r *table.Reader, k scope.Key, s *mesh.Service, address, in, cluster string) bool {
	others, _ := table.Get(r, t.reg.ByAddress, address)
	if others.Len() < 2 {
		return false
	}
	for _, m := range others.All() {
		o := m.Service
		if o.Key.Host == k.Host || registry.BeforeIn(cluster, o, s) >= 0 || !registry.Has(o, address, cluster) {
			continue
		}
		at, seen, found := t.seen(r, k.Layer, o.Key.Host)
		if found && seen.Service != nil && seen.Service.Key == o.Key &&
			slices.ContainsFunc(t.places(r, at, seen), func(p place) bool { return p.route == in && !p.hidden }) {
			return true
		}
	}
	return false
}

// declareClashes notes a short name that is another host's own, on who loses it.
func (t *Tables) declareClashes() {
	nothing := table.Same[struct{}]
	table.Derive(t.reg.ServicesByHost, "route/name clashes", strings.Compare, nothing,
		func(r *table.Reader, host mesh.Host, rows table.Rows[registry.HostKey, *registry.Merged], _ func(string, struct{})) {
			for _, long := range t.longNames(host) {
				others, _ := table.Get(r, t.reg.ServicesByHost, long)
				for _, m := range others.All() {
					r.Note(mesh.Problem{
						Object:   m.Service.Origin,
						Field:    "spec.hosts",
						Code:     code.NameTaken,
						Severity: mesh.Info,
						Message: "the name " + string(
							host,
						) + " means a host of that very name, not " + string(
							long,
						) + ", to clients that see it",
					})
				}
			}
		})
}

// longNames lists the full names of which a host is a short form: for clients of a layer that sees it, it takes that name away from them.
func (t *Tables) longNames(host mesh.Host) []mesh.Host {
	suffix := t.in.DomainSuffix()
	switch labels := strings.Split(string(host), "."); {
	case host.IsWildcard():
	case len(labels) == 2:
		return []mesh.Host{host + mesh.Host(".svc."+suffix)}
	case len(labels) == 3 && labels[2] == "svc":
		return []mesh.Host{host + mesh.Host("."+suffix)}
	}
	return nil
}

// shortNames lists the short forms of a host that a host of another namespace may have for its name.
func (t *Tables) shortNames(host mesh.Host) []mesh.Host {
	var out []mesh.Host
	for _, d := range route.ShortForms(host, "", t.in.DomainSuffix()) {
		out = append(out, mesh.Host(d))
	}
	return out
}

// sharers lists the other services that have one of a service's addresses.
func (t *Tables) sharers(r *table.Reader, s *mesh.Service) []*mesh.Service {
	var out []*mesh.Service
	if s == nil {
		return nil
	}
	for _, d := range registry.Domains(s.AllAddresses()) {
		others, _ := table.Get(r, t.reg.ByAddress, d)
		for k, m := range others.All() {
			if k.Host != s.Key.Host {
				out = append(out, m.Service)
			}
		}
	}
	return out
}

// rivals lists the hosts that a host, of which a namespace has a view of its own, may take names or addresses from.
func (t *Tables) rivals(r *table.Reader, host mesh.Host, s *mesh.Service) []mesh.Host {
	out := t.longNames(host)
	for _, o := range t.sharers(r, s) {
		if !slices.Contains(out, o.Key.Host) {
			out = append(out, o.Key.Host)
		}
	}
	return out
}

// rivalIn is the first host that a layer has a view of its own of, and that may take names or addresses from a public one; empty: none.
func (t *Tables) rivalIn(r *table.Reader, l mesh.Layer, public mesh.Host, s *mesh.Service) mesh.Host {
	for _, host := range t.shortNames(public) {
		if table.Has(r, t.sc.Seen, scope.Key{Layer: l, Host: host}) {
			return host
		}
	}
	for _, o := range t.sharers(r, s) {
		if seen, ok := table.Get(
			r,
			t.sc.Seen,
			scope.Key{Layer: l, Host: o.Key.Host},
		); ok && seen.Service != nil &&
			seen.Service.Key == o.Key {
			return o.Key.Host
		}
	}
	return ""
}

// ports lists the ports of a service that requests are routed on. A host without a service has rules for port 80 alone.
func ports(s *mesh.Service) []uint32 {
	if s == nil {
		return []uint32{80}
	}
	var out []uint32
	for _, p := range s.Ports {
		if p.Protocol.MayBeHTTP() {
			out = append(out, p.Number)
		}
	}
	return out
}
