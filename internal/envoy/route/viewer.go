package route

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
)

// conditions are the fields of the three kinds of match block (HTTP, TLS, L4) that say which proxies the block is for.
type conditions interface {
	GetPort() uint32
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

var (
	_ conditions = (*networking.HTTPMatchRequest)(nil)
	_ conditions = (*networking.TLSMatchAttributes)(nil)
	_ conditions = (*networking.L4MatchAttributes)(nil)
)

// Gateways lists the gateways a VirtualService is bound to, qualified: "namespace/name", or Mesh. The default is Mesh.
func Gateways(rule Rule) []string { return qualify(rule.Namespace, rule.Spec.GetGateways()) }

// BoundTo reports whether the rule's list of gateways names the gateway.
func BoundTo(rule Rule, gateway string) bool {
	return slices.Contains(Gateways(rule), gateway)
}

// qualify resolves gateway names against the rule's namespace (VirtualService.gateways).
func qualify(namespace string, names []string) []string {
	if len(names) == 0 {
		return []string{Mesh}
	}
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = n; n != Mesh {
			home, short := config.GatewayName(namespace, n)
			out[i] = home + "/" + short
		}
	}
	return out
}

func (v Viewer) appliesHTTP(rule Rule, m *networking.HTTPMatchRequest) bool {
	return v.applies(rule, m)
}

// gatewaysOf lists the gateways of a match block: its own, or the rule's if it has none.
func gatewaysOf(rule Rule, m conditions) []string {
	names := m.GetGateways()
	if len(names) == 0 {
		names = rule.Spec.GetGateways()
	}
	return qualify(rule.Namespace, names)
}

// applies reports whether a match block applies to the viewer. sourceLabels and sourceNamespace only match inside the mesh.
func (v Viewer) applies(rule Rule, m conditions) bool {
	if v.Every {
		return true
	}
	if p := m.GetPort(); p != 0 && p != v.Port {
		return false
	}
	if !slices.ContainsFunc(gatewaysOf(rule, m), v.is) {
		return false
	}
	return v.isSource(m)
}

func (v Viewer) is(gateway string) bool { return slices.Contains(v.Gateways, gateway) }

// isSource reports whether the viewer is a source that a match block asks for.
func (v Viewer) isSource(m conditions) bool {
	if !v.is(Mesh) {
		return len(m.GetSourceLabels()) == 0 && m.GetSourceNamespace() == ""
	}
	if n := m.GetSourceNamespace(); n != "" && n != v.Namespace {
		return false
	}
	return v.Labels.SelectedBy(mesh.MakeLabels(m.GetSourceLabels()))
}

// viewerMistakes notes conditions that can never be true.
func (b *Builder) viewerMistakes(rule Rule, field string, m conditions) {
	sources := len(m.GetSourceLabels()) > 0 || m.GetSourceNamespace() != ""
	if sources && !slices.Contains(gatewaysOf(rule, m), Mesh) {
		b.problem(mesh.Warning, code.SourceWithoutMesh, field,
			"sourceLabels and sourceNamespace only hold for sidecars, and the rule is for gateways only: it never matches",
			"add mesh to the gateways, or leave the source out")
	}
}

// Sources lists the distinct sourceLabels that a rule's match blocks ask for, in canonical form: they decide which proxies need their own
// routes.
func Sources(spec *networking.VirtualService) []mesh.Labels {
	var out []mesh.Labels
	eachCondition(spec, func(m conditions) {
		if l := mesh.MakeLabels(m.GetSourceLabels()); l != "" {
			out = append(out, l)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// SourcesOfTCP is Sources of match blocks of plain connections alone.
func SourcesOfTCP(spec *networking.VirtualService) []mesh.Labels {
	return Sources(&networking.VirtualService{Tcp: spec.GetTcp()})
}

// SourcesOfTLS is Sources of the tls part alone, whose match blocks only know the server name of a connection.
func SourcesOfTLS(spec *networking.VirtualService) []mesh.Labels {
	return Sources(&networking.VirtualService{Tls: spec.GetTls()})
}

// SourcesOfDubbo is Sources of match blocks of requests and of plain connections: Dubbo requests are routed by both.
func SourcesOfDubbo(spec *networking.VirtualService) []mesh.Labels {
	return Sources(&networking.VirtualService{Http: spec.GetHttp(), Tcp: spec.GetTcp()})
}

// SourceNamespaces lists the namespaces that a rule's match blocks ask for.
func SourceNamespaces(spec *networking.VirtualService) []string {
	var out []string
	eachCondition(spec, func(m conditions) {
		if n := m.GetSourceNamespace(); n != "" {
			out = append(out, n)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

func eachCondition(spec *networking.VirtualService, do func(conditions)) {
	for _, r := range spec.GetHttp() {
		for _, m := range r.GetMatch() {
			do(m)
		}
	}
	for _, r := range spec.GetTls() {
		for _, m := range r.GetMatch() {
			do(m)
		}
	}
	for _, r := range spec.GetTcp() {
		for _, m := range r.GetMatch() {
			do(m)
		}
	}
}
