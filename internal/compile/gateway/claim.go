package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	routes "fairway/internal/compile/route"
	"fairway/internal/config"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// HostKey names one virtual host of a layer.
type HostKey struct {
	Layer mesh.Layer
	Route string // the route configuration it belongs to
	Port  uint32
	Host  mesh.Host
}

// name returns the name of the virtual host; resource returns its key on a shelf.
func (k HostKey) name() string { return k.Route + "/" + route.HostName(k.Host, k.Port) }

func (k HostKey) resource(s mesh.Shelf) mesh.ResourceKey {
	return mesh.ResourceKey{Shelf: s, Name: k.name()}
}

func compareHost(a, b HostKey) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Host, b.Host))
}

// ClaimKey names a VirtualService's share of a virtual host.
type ClaimKey struct {
	Host HostKey
	Rule config.Key
}

func compareClaim(a, b ClaimKey) int {
	return cmp.Or(compareHost(a.Host, b.Host), config.CompareKey(a.Rule, b.Rule))
}

// Claim holds the rules of a VirtualService for one virtual host.
type Claim struct {
	Rule     *config.Object
	Gateways []string // through which it is bound: "namespace/name", sorted
	ToHTTPS  bool     // requests in the clear are sent to HTTPS (ServerTLSSettings.https_redirect)
}

func sameClaim(a, b *Claim) bool {
	return config.Same(a.Rule, b.Rule) && slices.Equal(a.Gateways, b.Gateways) && a.ToHTTPS == b.ToHTTPS
}

// binding is one gateway that a VirtualService names, as it was found.
type binding struct {
	index  int // in the rule's list
	name   string
	key    config.Key
	layers table.Rows[SelectedKey, struct{}]
}

// bindings resolves the gateways of a VirtualService. One that is not there is noted, by the one row that asks with a note.
func (t *Tables) bindings(r *table.Reader, rule route.Rule, note func(field, code, message, fix string)) []binding {
	var out []binding
	for i, name := range route.Gateways(rule) {
		if name == route.Mesh {
			continue
		}
		key := gatewayKey(name)
		if !table.Has(r, t.gateways, key) {
			if note != nil {
				note(index("spec.gateways", i), code.UnknownGateway, "there is no Gateway "+name, t.nearestGateway(r, key))
			}
			continue
		}
		layers, _ := table.Get(r, t.layers, key)
		out = append(out, binding{i, name, key, layers})
	}
	return out
}

// bound reports whether a VirtualService names gateways: a VirtualService for sidecars only costs gateways nothing.
func bound(_ config.Key, o *config.Object) bool {
	return slices.ContainsFunc(route.Gateways(routes.RuleOf(o)), func(name string) bool { return name != route.Mesh })
}

// declareClaims finds, for each VirtualService, the virtual hosts that it claims on the gateways it is bound to.
func (t *Tables) declareClaims(rules *table.Table[config.Key, *config.Object]) {
	t.Claims = table.DeriveWhere(rules, bound, "gateway/claims", compareClaim, sameClaim,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(ClaimKey, *Claim)) {
			rule := routes.RuleOf(o)
			note := func(field, code, message, fix string) { r.Note(o.Problem(field, code, mesh.Error, message, fix)) }
			bound := t.bindings(r, rule, note)
			t.checkCover(r, rule, bound, note)
			found := claims{}
			if len(rule.Spec.GetHttp()) > 0 {
				t.eachServer(r, o, rule, bound,
					func(key ServerKey, s *Server, gateway string) { found.add(o, key, s, gateway, t.hosts(rule, s)) })
			}
			for _, host := range slices.SortedFunc(maps.Keys(found), compareHost) {
				emit(ClaimKey{host, k}, found[host])
			}
		})
	t.picked = table.KeysWhile(t.in.InferencePools, t.Claims, "gateway/picked", compareRoute, func(k ClaimKey, c *Claim) []routeKey {
		if !routes.RuleOf(c.Rule).Picked() {
			return nil
		}
		return []routeKey{{k.Host.Layer, k.Host.Route}}
	})
}

// claims gathers what one VirtualService claims.
type claims map[HostKey]*Claim

func (c claims) add(o *config.Object, key ServerKey, s *Server, gateway string, hosts []mesh.Host) {
	name := routeName(key, s)
	if name == "" {
		return
	}
	for _, h := range hosts {
		at := HostKey{key.Port.Layer, name, key.Port.Port, h}
		claim := c[at]
		if claim == nil {
			claim = &Claim{Rule: o}
			c[at] = claim
		}
		if i, ok := slices.BinarySearch(claim.Gateways, gateway); !ok {
			claim.Gateways = slices.Insert(claim.Gateways, i, gateway)
		}
		claim.ToHTTPS = claim.ToHTTPS || s.Class == HTTP && s.Spec.GetTls().GetHttpsRedirect()
	}
}

// hosts lists the names that a rule claims on a server.
func (t *Tables) hosts(rule route.Rule, s *Server) []mesh.Host {
	var out []mesh.Host
	for _, h := range t.fullHosts(rule) {
		out = append(out, s.claims(rule.Namespace, h)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fullHosts lists the hosts of a rule.
func (t *Tables) fullHosts(rule route.Rule) []mesh.Host {
	out := make([]mesh.Host, 0, len(rule.Spec.GetHosts()))
	for _, h := range rule.Spec.GetHosts() {
		out = append(out, t.sc.FullHost(h, rule.Namespace))
	}
	return out
}

// checkCover notes the hosts of a rule that none of its gateways serves, and the gateways that serve none of its hosts. If a rule is also
// bound to the mesh, its hosts may be for sidecars only.
func (t *Tables) checkCover(r *table.Reader, rule route.Rule, bound []binding, note func(field, code, message, fix string)) {
	const fix = "add the host to one of its servers, or bind the rule to another gateway"
	used := make([]bool, len(bound))
	for i, h := range rule.Spec.GetHosts() {
		host := t.sc.FullHost(h, rule.Namespace)
		served := false
		for j, b := range bound {
			if len(t.claimable(r, b.key, rule.Namespace, host)) > 0 {
				served, used[j] = true, true
			}
		}
		if !served && len(bound) > 0 && !route.BoundTo(rule, route.Mesh) {
			note(index("spec.hosts", i), code.HostNotServed,
				"no server of "+gatewayNames(bound)+" serves "+h+" to rules of namespace "+rule.Namespace, fix)
		}
	}
	for j, b := range bound {
		if !used[j] && (slices.Contains(used, true) || route.BoundTo(rule, route.Mesh)) {
			note(index("spec.gateways", b.index), code.HostNotServed,
				"no server of Gateway "+b.name+" serves any host of this rule to namespace "+rule.Namespace, fix)
		}
	}
}

func gatewayNames(bound []binding) string {
	out := "Gateway " + bound[0].name
	for _, b := range bound[1:] {
		out += ", " + b.name
	}
	return out
}

func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
