package scope

import (
	"cmp"
	"slices"
	"strings"

	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

func lower(s string) string { return strings.ToLower(s) }

func joinHosts(hosts []mesh.Host) string {
	var b strings.Builder
	for i, h := range hosts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(h))
	}
	return b.String()
}

// declareViews derives the layers' views of hosts, by pair of a host and a layer, so that a change of one affects no other layer or host.
func (t *Tables) declareViews() {
	t.hosts = table.Derive(t.mentions, "hosts", compareHostKey, (*host).equal,
		func(r *table.Reader, name mesh.Host, own table.Rows[mentionKey, mention], emit func(hostKey, *host)) {
			h := t.gather(r, name, own)
			if h == nil {
				return
			}
			if len(h.targets) > 0 {
				full := *h
				emit(hostKey{name, true}, &full)
				h.targets = nil
			}
			emit(hostKey{name, false}, h)
		})
	t.declareReaches()
	t.Views = table.Derive(t.byLayer(t.hosts, "hosts by layer"), "seen", CompareKey, (*HostView).Equal,
		func(r *table.Reader, k table.Pair[hostKey, mesh.Layer], v table.Both[*host, *reach], emit func(Key, *HostView)) {
			see := t.viewOf
			if k.Left.Targets {
				see = t.destination
			}
			if s := see(r, v.Left, k.Right, v.Right); s != nil {
				emit(Key{k.Right, k.Left.Host}, s)
			}
		})
}

// byLayer declares the pairs of a host and a layer that may see something of it.
func (t *Tables) byLayer(
	hosts *table.Table[hostKey, *host], name string,
) *table.Table[table.Pair[hostKey, mesh.Layer], table.Both[*host, *reach]] {
	return table.Join(hosts, func(_ hostKey, h *host) []pattern { return h.patterns() },
		t.reaches, func(l mesh.Layer, reach *reach) []pattern { return reach.patterns(l) }, name)
}

// viewOf returns a layer's view of a host; nil: nothing, or the view of Public.
func (t *Tables) viewOf(r *table.Reader, h *host, l mesh.Layer, by *reach) *HostView {
	switch {
	case l.Kind == mesh.SidecarLayer:
		return t.imported(r, h, l, by)
	case l != mesh.Public:
		own, _ := h.inNamespace(l)
		return own
	case t.coveredBy(r, h):
		return nil
	}
	return h.public
}

// hostKey names a row of a host. While VirtualServices for other hosts send requests to a host, it has a second row with Targets set, and
// only that row lists them. So one such VirtualService more or less recomputes nothing that reads only the first row.
type hostKey struct {
	Host    mesh.Host
	Targets bool
}

func compareHostKey(a, b hostKey) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(toInt(a.Targets), toInt(b.Targets)))
}

// host is everything that objects and registries declare for one host, before any layer's view of it is made.
type host struct {
	name               mesh.Host
	services           []*mesh.Service // as registries order them
	routes             []route         // VirtualServices, the most specific host first, then the oldest
	rules              []route         // DestinationRules, in the same order
	targets            []route         // VirtualServices for other hosts that send requests here; only in the row with hostKey.Targets
	root               string          // the root namespace
	strict             bool            // routes of other namespaces count only if the owner agrees
	shortNameNamespace string          // the namespace that may use a name without dots for the host; empty: none
	public             *HostView       // the view of namespaces that no part of it is specific to; nil: no view
	near               []pattern       // of Sidecars' imports that may be about it
}

// equal compares what hosts are made of.
func (h *host) equal(o *host) bool {
	return h.name == o.name && slices.EqualFunc(h.services, o.services, (*mesh.Service).Equal) && slices.Equal(h.routes, o.routes) &&
		slices.Equal(h.rules, o.rules) && slices.Equal(h.targets, o.targets) && h.root == o.root &&
		h.shortNameNamespace == o.shortNameNamespace && h.strict == o.strict
}

// gather reads all that names a host, exactly or by wildcards. nil: nothing makes it a host that clients can address.
func (t *Tables) gather(r *table.Reader, name mesh.Host, own table.Rows[mentionKey, mention]) *host {
	h := &host{name: name}
	_, h.shortNameNamespace, _ = name.Local(t.in.DomainSuffix())
	addressed := false
	for k := range own.All() {
		addressed = addressed || k.About == aService || k.About == aRoute
	}
	if !addressed {
		return nil
	}
	services, _ := table.Get(r, t.reg.ServicesByHost, name)
	for _, m := range services.All() {
		h.services = append(h.services, m.Service)
	}
	slices.SortFunc(h.services, registry.Before)
	h.add(own)
	for _, w := range name.Wildcards() {
		rows, _ := table.Get(r, t.mentions, w)
		h.add(rows)
	}
	h.root = t.in.RootNamespace(r)
	h.strict = len(h.routes) > 0 && t.in.Strict(r)
	h.public = h.viewFor(viewer{})
	h.near = importing(h.name, h.namespaces())
	t.noteForeign(r, h)
	return h
}

// add adds the mentions of one pattern; the most specific pattern comes first.
func (h *host) add(rows table.Rows[mentionKey, mention]) {
	routes, rules := len(h.routes), len(h.rules)
	for k, m := range rows.All() {
		switch k.About {
		case aRoute:
			h.routes = append(h.routes, route{k, m})
		case aRule:
			h.rules = append(h.rules, route{k, m})
		case aTarget:
			if k.Host == h.name {
				h.targets = append(h.targets, route{k, m})
			}
		}
	}
	slices.SortFunc(h.routes[routes:], older)
	slices.SortFunc(h.rules[rules:], older)
}

// resolve returns a viewer's view of a host.
func (t *Tables) resolve(r *table.Reader, v viewer, name mesh.Host) *HostView {
	h, ok := table.Get(r, t.hosts, hostKey{Host: name})
	if !ok {
		return nil
	}
	return h.viewFor(v)
}

// viewer is the namespace that looks at hosts; "" is one that no exportTo names.
type viewer struct {
	namespace      string
	clients        mesh.Labels                  // its labels, as far as DestinationRules pick by them
	gateway        bool                         // pools are only for gateways
	sidecarImports func(string, mesh.Host) bool // whether a Sidecar imports a host of a namespace; nil: there is none
}

// imports reports whether the viewer's Sidecar lets it see a host of a namespace.
func (v viewer) imports(namespace string, host mesh.Host) bool {
	return v.sidecarImports == nil || v.sidecarImports(namespace, host)
}

// viewFor returns a viewer's view of the host; nil: nothing.
func (h *host) viewFor(v viewer) *HostView {
	s := &HostView{Service: h.service(v)}
	s.VirtualServices = h.virtualServices(v, s.Service)
	s.Source = h.source(v, s.VirtualServices)
	if s.Service == nil && !h.named(s.VirtualServices) {
		return nil
	}
	if s.Service != nil {
		s.Rule = h.rule(v, s.Service)
	}
	return s
}

// source returns the viewer's namespace if one of the VirtualServices depends on it.
func (h *host) source(v viewer, keys []config.Key) string {
	for _, m := range h.routes {
		if m.sources != "" && slices.Contains(splitExports(m.sources), v.namespace) && slices.Contains(keys, m.key.object()) {
			return v.namespace
		}
	}
	return ""
}

// named reports whether one of the VirtualServices names the host itself: a wildcard alone makes no host.
func (h *host) named(keys []config.Key) bool {
	return slices.ContainsFunc(h.routes, func(r route) bool { return r.key.Host == h.name && slices.Contains(keys, r.key.object()) })
}

// service returns the viewer's own namespace's service, else the first by registry and age.
func (h *host) service(v viewer) *mesh.Service {
	var first *mesh.Service
	for _, s := range h.services {
		if !s.VisibleIn(v.namespace) || !v.imports(s.Key.Namespace, h.name) || s.Pool && !v.gateway {
			continue
		}
		if s.Key.Namespace == v.namespace {
			return s
		}
		if first == nil {
			first = s
		}
	}
	return first
}

// virtualServices lists those that the viewer sees. Among equally specific ones, those of the service's and of the viewer's namespace have
// precedence, then those that users wrote as such, then those that not all namespaces see, in Istio's order.
func (h *host) virtualServices(v viewer, s *mesh.Service) []config.Key {
	var visible []route
	for _, m := range h.routes {
		if m.visible(v.namespace) && v.imports(m.key.Source.Namespace, m.key.Host) && h.counts(m, v.namespace, s) {
			visible = append(visible, m)
		}
	}
	slices.SortStableFunc(visible, func(a, b route) int {
		if a.key.Host != b.key.Host {
			return 0
		}
		return cmp.Or(cmp.Compare(toInt(h.foreign(a, v.namespace, s)), toInt(h.foreign(b, v.namespace, s))),
			cmp.Compare(toInt(a.ranked), toInt(b.ranked)),
			cmp.Compare(toInt(a.visible("")), toInt(b.visible(""))))
	})
	var keys []config.Key
	for _, m := range visible {
		if k := m.key.object(); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m route) visible(namespace string) bool {
	return mesh.Exported(splitExports(m.exportTo), m.key.Source.Namespace, namespace)
}

// rule picks the DestinationRule: of the client's namespace, else of the service's, else of the root namespace; in each, the most specific
// host (destination_rule.proto, DestinationRule.host and exportTo). For clients in the root namespace, that namespace's rules come last
// too, except rules that are only for them: these come first.
func (h *host) rule(v viewer, s *mesh.Service) RuleKey {
	for _, tier := range [...]struct {
		namespace string
		private   bool
	}{{v.namespace, v.namespace == h.root}, {s.Key.Namespace, false}, {h.root, false}} {
		if tier.namespace == "" {
			continue
		}
		if m, ok := h.ruleIn(tier.namespace, tier.private, v); ok {
			return RuleKey{tier.namespace, m.key.Host, m.exportTo, m.clients}
		}
	}
	return RuleKey{}
}

// ruleIn picks from one namespace: of the most specific host that some rule holds for, a rule that selects the viewer by its labels before
// a rule for all (DestinationRule.workloadSelector: it holds only for workloads of its own namespace). private: only rules that are
// exported to no other namespace count.
func (h *host) ruleIn(namespace string, private bool, v viewer) (best route, found bool) {
	for _, m := range h.rules {
		switch {
		case m.key.Source.Namespace != namespace || !m.visible(v.namespace):
		case private && m.exportTo != "." && m.exportTo != namespace:
		case m.clients != "" && (namespace != v.namespace || !v.clients.SelectedBy(m.clients)):
		case !found:
			best, found = m, true
		case m.key.Host == best.key.Host && best.clients == "" && m.clients != "":
			best = m
		}
	}
	return best, found
}

// inNamespace returns the view of the host that a namespace's proxies have, if it differs from the shared one or they have a shorter name
// for the host; else nil. same: the view equals the shared one.
func (h *host) inNamespace(l mesh.Layer) (own *HostView, same bool) {
	s := h.viewFor(viewer{namespace: l.Namespace, clients: l.Clients})
	same = s.Equal(h.public)
	if s == nil || same && l.Namespace != h.shortNameNamespace && !s.ownedBy(l.Namespace) {
		return nil, same
	}
	return s, same
}

// ownedBy reports whether the service is the namespace's own. Endpoints that lead to the client's own machine are only for clients of that
// namespace.
func (s *HostView) ownedBy(namespace string) bool {
	return s.Service != nil && s.Service.Key.Namespace == namespace
}

// special lists the namespaces that may have a view of the host other than the shared one, sorted.
func (h *host) special() []string {
	out := []string{h.shortNameNamespace}
	for _, s := range h.services {
		out = append(out, s.Key.Namespace)
		out = append(out, s.ExportTo...)
	}
	for _, m := range h.routes {
		if m.sources != "" {
			out = append(out, splitExports(m.sources)...)
		}
		if !m.visible("") {
			out = append(out, m.key.Source.Namespace)
			out = append(out, splitExports(m.exportTo)...)
		} else if h.contested(m) {
			out = append(out, m.key.Source.Namespace)
		}
	}
	for _, m := range h.rules {
		out = append(out, m.key.Source.Namespace)
		out = append(out, splitExports(m.exportTo)...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(s string) bool { return s == "" || s == "*" || s == "." || s == "~" })
}
