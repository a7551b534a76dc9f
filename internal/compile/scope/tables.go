package scope

import (
	"cmp"
	"slices"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/sidecar"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Key names a host as a layer sees it.
type Key struct {
	Layer mesh.Layer
	Host  mesh.Host
}

// CompareKey orders by layer, then host.
func CompareKey(a, b Key) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Host, b.Host))
}

// HostView is what a layer sees of a host. It is immutable.
type HostView struct {
	Service         *mesh.Service // nil: only VirtualServices name this host
	VirtualServices []config.Key  // bound to the mesh, the most specific host first, then the oldest: sidecars use the first
	Rule            RuleKey       // of Service; the zero key: none
	Egress          []int         // in a SidecarLayer: which of its egress listeners import the host
	// Destination is set in a SidecarLayer if no egress listener imports Service but an imported VirtualService sends requests to it: it
	// needs clusters, and clients do not reach it by its name or addresses. VirtualServices hold for the host all the same.
	Destination bool
	// Source is the namespace of the viewer, if a match of one of VirtualServices has it as its sourceNamespace, or one of them sends
	// requests to a service that not all namespaces see; empty: the viewer's namespace does not matter.
	Source string
}

// Equal reports whether two views are the same.
func (s *HostView) Equal(o *HostView) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return s.Service.Equal(o.Service) && slices.Equal(s.VirtualServices, o.VirtualServices) && s.Rule == o.Rule &&
		slices.Equal(s.Egress, o.Egress) && s.Destination == o.Destination && s.Source == o.Source
}

// Addressed returns the part of a view that clients reach by the host's name or addresses: s, without a service that is only a destination
// of rules. It returns nil if nothing is left.
func (s *HostView) Addressed() *HostView {
	if s == nil || !s.Destination {
		return s
	}
	if len(s.VirtualServices) == 0 {
		return nil
	}
	return &HostView{VirtualServices: s.VirtualServices, Egress: s.Egress, Source: s.Source}
}

// Tables are the derived tables of this package.
type Tables struct {
	Egress *table.Table[EgressKey, sidecar.Listener]
	Open   *table.Table[OpenKey, struct{}] // the ports of Egress that take requests
	Rules  *table.Table[RuleKey, *Rule]
	Views  *table.Table[Key, *HostView]

	in       *input.Tables
	reg      *registry.Tables
	sidecars *sidecar.Tables
	demand   *demand.Tables
	mentions *table.Table[mesh.Host, table.Rows[mentionKey, mention]]
	hosts    *table.Table[hostKey, *host]
	reaches  *table.Table[mesh.Layer, *reach] // what each demanded layer may see
	policies *table.Table[mesh.Layer, policy]
	plain    *table.Table[string, table.Rows[mesh.Layer, demand.LayerInfo]] // layers without a Sidecar, by namespace
	present  *table.Table[struct{}, string]                                 // namespaces of plain sidecars: one, or several
}

// Declare declares the package's tables.
func Declare(in *input.Tables, reg *registry.Tables, sidecars *sidecar.Tables, proxies *demand.Tables) *Tables {
	t := &Tables{in: in, reg: reg, sidecars: sidecars, demand: proxies}
	t.declarePlain()
	t.declareEgress()
	t.declareRules()
	t.declareMentions()
	t.declareViews()
	return t
}

// View returns a layer's view of a host: its own row, else the row of Public below it. nil: nothing. A gateway sees all that is exported to
// its namespace.
func (t *Tables) View(r *table.Reader, l mesh.Layer, host mesh.Host) *HostView {
	if l.Kind == mesh.GatewayLayer {
		return t.resolve(r, viewer{namespace: l.Namespace, clients: mesh.Labels(l.Name), gateway: true}, host)
	}
	if s, ok := table.Get(r, t.Views, Key{l, host}); ok || l.Kind == mesh.SidecarLayer || l == mesh.Public {
		return s
	}
	s, _ := table.Get(r, t.Views, Key{mesh.Public, host})
	return s
}

// Everywhere returns the view of a layer if its Sidecar imported all that is exported to its namespace. nil: nothing.
func (t *Tables) Everywhere(r *table.Reader, l mesh.Layer, host mesh.Host) *HostView {
	if l.Kind == mesh.GatewayLayer {
		return t.View(r, l, host)
	}
	return t.resolve(r, viewer{namespace: l.Namespace, clients: l.Clients}, host)
}

// Service is the service that a layer means by a host; nil: none.
func (t *Tables) Service(r *table.Reader, l mesh.Layer, host mesh.Host) *mesh.Service {
	if s := t.View(r, l, host); s != nil {
		return s.Service
	}
	return nil
}

// Rule returns the DestinationRule that holds for a service in the view of a layer; nil: none.
func (t *Tables) Rule(r *table.Reader, l mesh.Layer, s *mesh.Service) *Rule {
	if seen := t.View(r, l, s.Key.Host); seen != nil {
		return t.RuleOf(r, seen)
	}
	return nil
}

// RuleOf is the DestinationRule of a row of Views; nil: none.
func (t *Tables) RuleOf(r *table.Reader, s *HostView) *Rule {
	if s.Rule == (RuleKey{}) {
		return nil
	}
	rule, _ := table.Get(r, t.Rules, s.Rule)
	return rule
}

// VirtualServices returns the VirtualServices bound to the mesh that hold for a host in a layer, in the order of its HostView.
func (t *Tables) VirtualServices(r *table.Reader, l mesh.Layer, host mesh.Host) []*config.Object {
	if s := t.View(r, l, host); s != nil {
		return t.VirtualServicesOf(r, s)
	}
	return nil
}

// VirtualServicesOf are the objects of a row's VirtualServices.
func (t *Tables) VirtualServicesOf(r *table.Reader, s *HostView) []*config.Object {
	out := make([]*config.Object, 0, len(s.VirtualServices))
	for _, k := range s.VirtualServices {
		if o, ok := table.Get(r, t.in.VirtualServices, k); ok {
			out = append(out, o)
		}
	}
	return out
}

// FullHost returns the host that a name in a rule of a namespace means: a name without dots is a service of the rule's own namespace, as
// Istio documents for VirtualService.hosts, Destination.host and DestinationRule.host.
func (t *Tables) FullHost(name, namespace string) mesh.Host {
	return mesh.FullHost(name, namespace, t.in.DomainSuffix())
}
