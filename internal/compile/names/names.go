package names

import (
	"net/netip"
	"slices"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/names"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Show reads back what is published, for those who show it: each name with its addresses, by name.
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
func Declare(in *input.Tables, reg *registry.Tables, sc *scope.Tables, proxies *demand.Tables) *Tables {
	b := builder{reg: reg, suffix: ".svc." + in.DomainSuffix()}
	views := declareViews(proxies)
	t := &Tables{Names: table.Derive(sc.Seen, "names", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k scope.Key, seen *scope.Seen, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for v := range views.Of(r, k.Layer) {
				own, below := b.entries(r, v, seen), b.below(r, sc, v, k.Host)
				if e := names.Encode(own); len(own)+len(below) > 0 && !envoy.Same(e, names.Encode(below)) {
					emit(mesh.ResourceKey{Shelf: v.shelf(), Name: string(k.Host)}, e)
				}
			}
		})}
	t.Parts = []demand.Part{views.Part(xdstype.NameTables, Variant.shelf, t.Names)}
	return t
}

// builder finds the addresses of hosts.
type builder struct {
	reg    *registry.Tables
	suffix string // of the names of services inside the mesh: ".svc.cluster.local"
}

// below is what the layer below a namespace's says of the same host. Where both say the same the upper one need not,
// and where only the lower one has addresses the upper one has to say that there are none.
func (b builder) below(r *table.Reader, sc *scope.Tables, v Variant, host mesh.Host) []names.Entry {
	if v.Layer.Kind != mesh.NamespaceLayer {
		return nil
	}
	seen, ok := table.Get(r, sc.Seen, scope.Key{Layer: mesh.Public, Host: host})
	if !ok {
		return nil
	}
	return b.entries(r, v, seen)
}

// entries are the names of a host with their addresses; none where it has no address, or nothing but VirtualServices knows it.
func (b builder) entries(r *table.Reader, v Variant, seen *scope.Seen) []names.Entry {
	s := seen.Service
	if s == nil || seen.Destination {
		return nil
	}
	e := names.Entry{Host: string(s.Key.Host), Registry: s.Key.Registry}
	e.Short, e.Namespace = b.parts(s.Key.Host)
	if e.IPs = addresses(s.Addresses); len(e.IPs) > 0 {
		return []names.Entry{e}
	}
	if vip := b.reg.VIP(r, s); vip != "" && v.AutoVIP {
		e.IPs = []string{vip}
		return []names.Entry{e}
	}
	if s.Resolution == mesh.Passthrough && !s.External && len(s.Addresses) == 0 {
		return b.headless(r, s, e)
	}
	return nil
}

// addresses are those of a list that a name can stand for: not ranges, unless of one address.
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

// parts are those of a name of a service inside the mesh, <short>.<namespace>.svc.<domain>.
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

// headless gives a service the addresses of its healthy endpoints, and those with a hostname a name of their own.
func (b builder) headless(r *table.Reader, s *mesh.Service, e names.Entry) []names.Entry {
	own := map[string][]string{}
	for _, p := range s.Ports {
		for _, end := range b.reg.EndpointsOf(r, s.Key, p) {
			ip, err := netip.ParseAddr(end.Address)
			if err != nil || end.Health != mesh.Healthy {
				continue
			}
			e.IPs = append(e.IPs, ip.String())
			if end.Hostname != "" {
				host := strings.ToLower(end.Hostname) + "." + e.Host
				own[host] = append(own[host], ip.String())
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
