package names

import (
	"net/netip"
	"slices"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/network"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/names"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Show decodes a published resource for display: each name with its addresses, sorted by name.
func Show(body []byte) ([]Shown, error) {
	entries, err := names.Decode(body)
	out := make([]Shown, len(entries))
	for i, e := range entries {
		out[i] = Shown{e.Host, e.IPs}
	}
	return out, err
}

// Shown is a name with its addresses.
type Shown struct {
	Host      string
	Addresses []string
}

// Tables are the derived tables of this package.
type Tables struct {
	// Names is published: one resource a shelf and host.
	Names *table.Table[mesh.ResourceKey, *envoy.Encoded]
	Parts []demand.Part
}

// Declare declares the package's tables.
func Declare(
	in *input.Tables, reg *registry.Tables, sc *scope.Tables, proxies *demand.Tables, networks *network.Tables,
) *Tables {
	b := builder{reg: reg, sc: sc, networks: networks, suffix: ".svc." + in.DomainSuffix()}
	views, inClusters := demand.DeclareViews(proxies, "name views", ofAll), demand.DeclareViews(proxies, "clusters' name views", byPlace)
	t := &Tables{Names: table.Derive(sc.Views, "names", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k scope.Key, seen *scope.HostView, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			var public *scope.HostView
			if k.Layer.Kind == mesh.NamespaceLayer {
				public, _ = table.Get(r, sc.Views, scope.Key{Layer: mesh.Public, Host: k.Host})
			}
			for v := range views.In(r, k.Layer) {
				if c := b.column(r, v, k, seen, public); c.OnShelf() {
					emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: string(k.Host)}, c.Own)
				}
			}
			if !differs(seen) && !differs(public) && reg.Alias(r, seen.Service) == "" {
				return
			}
			for v := range inClusters.In(r, k.Layer) {
				if e := demand.Above(b.column(r, byPlace.Below(v), k, seen, public), b.column(r, v, k, seen, public)); e != nil {
					emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: string(k.Host)}, e)
				}
			}
		})}
	t.Parts = []demand.Part{ofAll.Part(xdstype.NameTables, t.Names).Over(byPlace)}
	return t
}

// differs reports whether a host may have other addresses for proxies of some cluster or network.
func differs(s *scope.HostView) bool {
	return s != nil && s.Service != nil && (len(s.Service.Clusters) > 0 || s.Service.ClusterLocal || s.Service.Headless())
}

// builder finds the addresses of hosts.
type builder struct {
	reg      *registry.Tables
	sc       *scope.Tables
	networks *network.Tables

	suffix string // of the names of services inside the mesh: ".svc.cluster.local"
}

// column returns a host's entries in a view, and below it. If only the lower layer has addresses, the upper one has to say that there are
// none.
func (b builder) column(r *table.Reader, v demand.View, k scope.Key, seen, public *scope.HostView) (c demand.Column) {
	own := b.meant(r, v, k, seen)
	if below := b.meant(r, v, scope.Key{Layer: mesh.Public, Host: k.Host}, public); len(below) > 0 {
		c.Below = names.Encode(below)
	}
	if len(own) > 0 || c.Below != nil {
		c.Own = names.Encode(own)
	}
	return c
}

// meant returns the entries of a host. If the host is an alias, it returns the entries of the host behind it, under the alias's name.
func (b builder) meant(r *table.Reader, v demand.View, k scope.Key, seen *scope.HostView) []names.Entry {
	if seen == nil {
		return nil
	}
	host, concrete := b.sc.ConcreteOf(r, k.Layer, k.Host, seen)
	if concrete == nil {
		return b.entries(r, v, seen)
	}
	out := b.entries(r, v, concrete)
	if len(out) == 0 {
		return nil
	}
	out = out[:1:1] // endpoints have names of their own below the service's alone
	if out[0].Host == string(host) {
		out[0].Host, out[0].Registry = string(k.Host), seen.Service.Key.Registry
		out[0].Short, out[0].Namespace = b.parts(k.Host)
	}
	return out
}

// entries returns the names of a host with their addresses; none if it has no address, or only VirtualServices declare it.
func (b builder) entries(r *table.Reader, v demand.View, seen *scope.HostView) []names.Entry {
	if seen == nil || seen.Service == nil || seen.Destination {
		return nil
	}
	s := seen.Service
	e := names.Entry{Host: string(s.Key.Host), Registry: s.Key.Registry}
	e.Short, e.Namespace = b.parts(s.Key.Host)
	if e.IPs = addresses(s.AddressesIn(registry.OwnCluster.Of(v))); len(e.IPs) > 0 {
		return []names.Entry{e}
	}
	if allocated := b.reg.VIP(r, s); allocated != "" && vip.Of(v) {
		e.IPs = []string{allocated}
		return []names.Entry{e}
	}
	if s.Headless() {
		return b.headless(r, s, e, v)
	}
	return nil
}

// addresses returns the items of a list that a name can resolve to: IPs, and ranges of a single address.
func addresses(list []string) []string {
	var out []string
	for _, text := range list {
		ip, err := netip.ParseAddr(text)
		if prefix, err2 := netip.ParsePrefix(text); err != nil && err2 == nil && prefix.IsSingleIP() {
			ip, err = prefix.Addr(), nil
		}
		if err == nil && !ip.IsUnspecified() {
			out = append(out, ip.String())
		}
	}
	return out
}

// parts splits the name of a service inside the mesh, <short>.<namespace>.svc.<domain>.
func (b builder) parts(h mesh.Host) (short, namespace string) {
	name, ok := strings.CutSuffix(string(h), b.suffix)
	if !ok {
		return "", ""
	}
	short, namespace, ok = strings.Cut(name, ".")
	if !ok || namespace == "" || h.IsWildcard() || strings.Contains(namespace, ".") {
		return "", ""
	}
	return short, namespace
}

// headless gives a service the addresses of its healthy endpoints, and each endpoint with a hostname a name of its own. If the service is
// cluster-local, only endpoints of the client's cluster count. Endpoints of other networks than the client's are left out, because a client
// that connects to an address bypasses the gateways.
func (b builder) headless(r *table.Reader, s *mesh.Service, e names.Entry, v demand.View) []names.Entry {
	own, find := map[string][]string{}, b.networks.Finder(r)
	cluster, network := registry.OwnCluster.Of(v), network.OwnNetwork.Of(v)
	for _, p := range s.Ports {
		for k, end := range b.reg.EndpointsOf(r, s.Key, p) {
			if end.Health != mesh.Healthy || s.ClusterLocal && cluster != "" && k.Service.Cluster() != cluster {
				continue
			}
			if network != "" {
				if in := find.Of(k.Service, end); in != "" && in != network {
					continue
				}
			}
			ips := addresses(slices.Collect(end.Addresses()))
			e.IPs = append(e.IPs, ips...)
			if end.Hostname != "" {
				host := strings.ToLower(end.Hostname) + "." + e.Host
				own[host] = append(own[host], ips...)
			}
		}
	}
	if len(e.IPs) == 0 {
		return nil
	}
	e.IPs = unique(e.IPs)
	out := []names.Entry{e}
	for host, ips := range own {
		out = append(out, names.Entry{Host: host, IPs: unique(ips), Registry: e.Registry})
	}
	slices.SortFunc(out[1:], func(a, b names.Entry) int { return strings.Compare(a.Host, b.Host) })
	return out
}

func unique(ips []string) []string {
	slices.Sort(ips)
	return slices.Compact(ips)
}
