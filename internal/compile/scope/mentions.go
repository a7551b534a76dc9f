package scope

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/inference/pool"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/config/filters"
	routes "fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// about is the kind of an object or service that names a host.
type about uint8

const (
	aService about = iota
	aRoute         // a VirtualService bound to the mesh
	aRule          // a DestinationRule
	aTarget        // a VirtualService bound to the mesh sends requests to the host
)

// mentionKey says that an object or service names a host, possibly a wildcard.
type mentionKey struct {
	Host   mesh.Host
	About  about
	Source input.SourceKey
}

func compareMention(a, b mentionKey) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.About, b.About), input.CompareSourceKey(a.Source, b.Source))
}

// mention is the part of an object or service that decides its visibility and precedence, without its text. It is comparable.
type mention struct {
	exportTo string
	created  int64
	// sources are, of aRoute, the namespaces that may have other routes, separated by commas: matches have them as sourceNamespace, or only
	// they see a destination.
	sources string
	ranked  bool        // of aRoute: rules of several such objects of a namespace hold together (config.Made.ByPath)
	hosts   string      // of aTarget: the hosts of the VirtualService, separated by commas
	clients mesh.Labels // of aRule: the proxies of its namespace that it holds for; empty: for all that see it
}

// object is the key of the object that mentions.
func (k mentionKey) object() config.Key {
	return config.Key{Kind: k.Source.Kind, Namespace: k.Source.Namespace, Name: k.Source.Name}
}

func (t *Tables) declareMentions() {
	rows := table.Derive(t.in.Naming, "mentions", compareMention, table.Same[mention],
		func(r *table.Reader, k input.SourceKey, s input.Source, emit func(mentionKey, mention)) {
			switch {
			case s.Service != nil:
				emit(mentionKey{s.Service.Key.Host, aService, k}, mention{})
			case s.Object.Kind == config.ServiceEntry:
				t.mentionEntry(k, s.Object, emit)
			case s.Object.Kind == config.InferencePool:
				emit(mentionKey{pool.Host(k.Namespace, k.Name), aService, k}, mention{})
			case s.Object.Kind == config.VirtualService:
				t.mentionRoute(r, k, s.Object, emit)
			case s.Object.Kind == config.DestinationRule:
				key := t.ruleKey(r, s.Object)
				emit(mentionKey{key.Host, aRule, k}, mention{exportTo: key.ExportTo, created: s.Object.Created, clients: key.Clients})
			}
		})
	t.mentions = table.Group(rows, "mentions/host", cmp.Compare[mesh.Host],
		func(k mentionKey, _ mention) []mesh.Host { return []mesh.Host{k.Host} })
	t.declareClashes()
}

func (t *Tables) mentionEntry(k input.SourceKey, o *config.Object, emit func(mentionKey, mention)) {
	for _, h := range hostsOf(config.Spec[*networking.ServiceEntry](o).GetHosts(),
		func(s string) mesh.Host { return mesh.Host(lower(s)) }) {
		emit(mentionKey{h, aService, k}, mention{})
	}
}

// mentionRoute emits the hosts of a VirtualService that is bound to the mesh (VirtualService.gateways: "mesh", or none at all), and its
// destinations.
func (t *Tables) mentionRoute(r *table.Reader, k input.SourceKey, o *config.Object, emit func(mentionKey, mention)) {
	spec := config.Spec[*networking.VirtualService](o)
	if g := spec.GetGateways(); len(g) > 0 && !slices.Contains(g, "mesh") {
		return
	}
	full := func(s string) mesh.Host { return t.FullHost(s, o.Namespace) }
	hosts := hostsOf(spec.GetHosts(), full)
	m := mention{exportTo: joinExports(t.in.ExportTo(r, o.Kind, spec.GetExportTo())), created: o.Created, ranked: ranked(o)}
	to := destinations(spec)
	if o.Made != nil {
		to = append(to, filters.Authorizers(o.Made.Routes)...)
	}
	targets := hostsOf(to, full)
	m.sources = joinExports(slices.Concat(routes.SourceNamespaces(spec), t.insiders(r, targets)))
	for _, h := range hosts {
		emit(mentionKey{h, aRoute, k}, t.named(r, h, o, m))
	}
	m.sources, m.ranked = "", false
	m.hosts = joinHosts(hosts)
	for _, h := range targets {
		if len(hosts) != 1 || hosts[0] != h { // importers of another of the hosts need this one too
			emit(mentionKey{h, aTarget, k}, m)
		}
	}
}

// ranked reports whether the rules of an object have precedence by how specific they are, over several objects.
func ranked(o *config.Object) bool { return o.Made != nil && o.Made.ByPath }

// insiders lists the namespaces that see a service of one of the hosts which not all namespaces see: they may have other routes to it.
func (t *Tables) insiders(r *table.Reader, hosts []mesh.Host) (out []string) {
	for _, h := range hosts {
		services, _ := table.Get(r, t.reg.ServicesByHost, h)
		for _, s := range services.All() {
			if !s.Service.VisibleIn("") {
				out = append(append(out, s.Service.Key.Namespace), s.Service.ExportTo...)
			}
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "*" || s == "." || s == "~" })
}

// named returns the mention of a host by a VirtualService: a short name of another namespace's Service counts only for the rule's own
// namespace.
func (t *Tables) named(r *table.Reader, h mesh.Host, o *config.Object, m mention) mention {
	if _, _, full := h.Local(t.in.DomainSuffix()); full || h.IsWildcard() || !t.reg.Foreign(r, h, o.Namespace) {
		return m
	}
	r.Note(o.Problem("spec.hosts", code.OwnNamespaceOnly, mesh.Warning,
		fmt.Sprintf("%s is a short name of another namespace's Service: it counts only for clients of namespace %s", h, o.Namespace),
		"write the full name of the Service"))
	m.exportTo = joinExports(registry.OnlyOwn(splitExports(m.exportTo), o.Namespace))
	return m
}

// hostsOf resolves names to hosts, sorted, each once.
func hostsOf(names []string, full func(string) mesh.Host) []mesh.Host {
	hosts := make([]mesh.Host, 0, len(names))
	for _, n := range names {
		hosts = append(hosts, full(n))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// destinations lists the hosts that a VirtualService sends requests or connections to, mirrors included.
func destinations(spec *networking.VirtualService) []string {
	var out []string
	add := func(d *networking.Destination) {
		if d.GetHost() != "" {
			out = append(out, d.GetHost())
		}
	}
	for _, h := range spec.GetHttp() {
		for _, d := range h.GetRoute() {
			add(d.GetDestination())
		}
		add(h.GetMirror())
		for _, m := range h.GetMirrors() {
			add(m.GetDestination())
		}
	}
	for _, l := range spec.GetTcp() {
		for _, d := range l.GetRoute() {
			add(d.GetDestination())
		}
	}
	for _, l := range spec.GetTls() {
		for _, d := range l.GetRoute() {
			add(d.GetDestination())
		}
	}
	return out
}

// declareClashes notes VirtualServices that name the same host for the same sidecars, on the younger one.
func (t *Tables) declareClashes() {
	several := func(_ mesh.Host, rows table.Rows[mentionKey, mention]) bool {
		n := 0
		for k := range rows.All() {
			if k.About == aRoute {
				n++
			}
		}
		return n > 1
	}
	table.DeriveWhere(t.mentions, several, "clashes", cmp.Compare[mesh.Host], table.Same[struct{}],
		func(r *table.Reader, host mesh.Host, rows table.Rows[mentionKey, mention], _ func(mesh.Host, struct{})) {
			var routes []route
			var owners []string
			for k, m := range rows.All() {
				switch k.About {
				case aRoute:
					routes = append(routes, route{k, m})
				case aService:
					owners = append(owners, k.Source.Namespace)
				}
			}
			root := t.in.RootNamespace(r)
			foreign := func(m route) bool {
				own := m.key.Source.Namespace
				return len(owners) > 0 && own != root && !slices.Contains(owners, own)
			}
			slices.SortFunc(routes, func(a, b route) int {
				return cmp.Or(cmp.Compare(toInt(foreign(a)), toInt(foreign(b))), cmp.Compare(toInt(a.ranked), toInt(b.ranked)), older(a, b))
			})
			for i, loser := range routes {
				w := slices.IndexFunc(routes[:i], loser.meets)
				if w < 0 {
					continue
				}
				why := "is older"
				switch {
				case foreign(loser) && !foreign(routes[w]):
					why = "is of the service's own namespace"
				case loser.ranked:
					why = "has precedence over routes of the Gateway API"
				}
				t.noteClash(r, host, loser.key.object(), routes[w].key.object(), why)
			}
		})
}

// route is a VirtualService that names a host.
type route struct {
	key mentionKey
	mention
}

// older orders by age, then namespace, then name.
func older(a, b route) int {
	return cmp.Or(cmp.Compare(a.created, b.created), config.CompareKey(a.key.object(), b.key.object()))
}

// meets reports whether some namespaces see both, and neither has precedence there by intention: one that not all namespaces see is meant
// to have precedence over one that all see, and the rules of ranked ones hold together.
func (a route) meets(b route) bool {
	if a.visible("") != b.visible("") || a.ranked && b.ranked {
		return false
	}
	viewers := []string{"", a.key.Source.Namespace, b.key.Source.Namespace}
	viewers = append(viewers, splitExports(a.exportTo)...)
	return slices.ContainsFunc(viewers, func(v string) bool {
		return v != "*" && v != "." && v != "~" &&
			mesh.Exported(splitExports(a.exportTo), a.key.Source.Namespace, v) &&
			mesh.Exported(splitExports(b.exportTo), b.key.Source.Namespace, v)
	})
}

func (t *Tables) noteClash(r *table.Reader, host mesh.Host, loser, winner config.Key, why string) {
	l, ok := table.Get(r, t.in.VirtualServices, loser)
	if !ok {
		return
	}
	r.Note(l.Problem("spec.hosts", code.HostTaken, mesh.Error,
		fmt.Sprintf("sidecars take the routes for host %s from VirtualService %s/%s, which %s; this one does not hold for them",
			host, winner.Namespace, winner.Name, why),
		"write the routes of a host in one VirtualService"))
}
