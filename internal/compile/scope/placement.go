package scope

import (
	"cmp"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Placement is where one proxy stands. It is comparable.
type Placement struct {
	Layer        mesh.Layer // the topmost: a NamespaceLayer has Public below it
	Sidecar      config.Key // the Sidecar object that selects the proxy; zero: none
	Outbound     Outbound   // the Sidecar's own policy, where it has no layer of its own and the mesh says otherwise
	Interception mesh.Interception
	Families     mesh.Families
	AutoVIP      bool
	Names        bool        // the proxy's agent resolves names
	Mutual       bool        // the proxy can speak mutual TLS
	Sources      mesh.Labels // those of the proxy's labels that sourceLabels of some VirtualService ask for
	Holder       Holder      // who it is, where Secrets are concerned
}

// view is the variant of a layer's listeners that the proxy has.
func (p Placement) view(l mesh.Layer) ListenerView {
	return ListenerView{OutboundView: OutboundView{l, p.Outbound}, Interception: p.Interception, Families: p.Families, AutoVIP: p.AutoVIP}
}

// layers is what the proxy sees, from below.
func (p Placement) layers() []mesh.Layer {
	if p.Layer.Kind == mesh.NamespaceLayer {
		return []mesh.Layer{mesh.Public, p.Layer}
	}
	return []mesh.Layer{p.Layer}
}

// LayerInfo is what is known of a demanded layer. It is comparable.
type LayerInfo struct {
	Sidecar config.Key // of a SidecarLayer
}

// OutboundView is a layer, as proxies have it that send traffic to unknown hosts where a policy says.
type OutboundView struct {
	Layer    mesh.Layer
	Outbound Outbound
}

// compareOutboundView orders by layer, then policy.
func compareOutboundView(a, b OutboundView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Outbound, b.Outbound))
}

// ListenerView is one variant of a layer's listeners that some proxy has.
type ListenerView struct {
	OutboundView
	Interception mesh.Interception
	Families     mesh.Families // that listeners are to be for
	AutoVIP      bool          // listeners for allocated addresses too
}

// CompareListenerView orders by layer, policy, interception, families and allocated addresses.
func CompareListenerView(a, b ListenerView) int {
	return cmp.Or(
		compareOutboundView(a.OutboundView, b.OutboundView),
		cmp.Compare(a.Interception, b.Interception),
		cmp.Compare(a.part(), b.part()),
	)
}

// GatewayView is one variant of a gateway layer's listeners that some proxy has.
type GatewayView struct {
	Layer    mesh.Layer
	Families mesh.Families
}

// CompareGatewayView orders by layer, then families.
func CompareGatewayView(a, b GatewayView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Families, b.Families))
}

// ClusterView is one variant of a layer's clusters that some proxy has.
type ClusterView struct {
	Layer  mesh.Layer
	Mutual bool // for proxies that can speak mutual TLS
}

// CompareClusterView orders by layer, those without mutual TLS first.
func CompareClusterView(a, b ClusterView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.part(), b.part()))
}

// Holder is who a proxy is to those that give out Secrets: the service account that it proved, of its layer's
// namespace. It is comparable; the zero Holder gets none.
type Holder struct {
	Account string
	Here    bool // it proved nothing, and its stream comes from the control plane's own machine
}

// holderOf is who a proxy is.
func holderOf(p vouch.Proxy) Holder {
	switch p.Standing {
	case mesh.Proven:
		return Holder{Account: p.ServiceAccount}
	case mesh.Here:
		return Holder{Here: true}
	}
	return Holder{}
}

// SecretView is what one holder may see of the secrets that resources of a layer name.
type SecretView struct {
	Layer  mesh.Layer
	Holder Holder
}

// CompareSecretView orders by layer, then holder.
func CompareSecretView(a, b SecretView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Holder.part(), b.Holder.part()))
}

// holds says whether the proxy may be sent secrets that resources of a layer name: others' layers have none, and who is nobody gets none.
func (p Placement) holds(l mesh.Layer) bool {
	return p.Holder != (Holder{}) && (l.Kind == mesh.GatewayLayer || l.Clients != "")
}

// NameView is one variant of a layer's names that some proxy's agent resolves.
type NameView struct {
	Layer   mesh.Layer
	AutoVIP bool // services without an address have the one allocated to them
}

// CompareNameView orders by layer, those without allocated addresses first.
func CompareNameView(a, b NameView) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.part(), b.part()))
}

func (t *Tables) declareSidecars() {
	t.sidecars = declareSelectors(t.in.Sidecars, "sidecar/selectors", func(o *config.Object) (selects.Selector, bool) {
		return selects.Selector{
			Namespace: o.Namespace,
			Labels:    mesh.MakeLabels(config.Spec[*networking.Sidecar](o).GetWorkloadSelector().GetLabels()),
		}, true
	})
	t.declareDefaults()
	t.declareOpenings()
}

// declareDefaults notes Sidecar objects without selector of which a namespace has more than one.
func (t *Tables) declareDefaults() {
	t.sidecars.Alike("sidecar/defaults", func(r *table.Reader, s selects.Selector, list []selects.Entry[struct{}]) {
		if s.Labels != "" {
			return
		}
		for _, younger := range list[1:] {
			if o, ok := table.Get(r, t.in.Sidecars.Table, younger.Key); ok {
				r.Note(mesh.Problem{
					Object:   o.Ref,
					Field:    "spec.workloadSelector",
					Code:     "SecondDefault",
					Severity: mesh.Error,
					Message:  "namespace " + s.Namespace + " has the default Sidecar " + list[0].Key.Name + " already, which is older",
					Fix:      "give this one a workloadSelector",
				})
			}
		}
	})
}

// defaultSidecar is the Sidecar of a namespace's proxies that none selects by labels.
func (t *Tables) defaultSidecar(r *table.Reader, namespace string) (config.Key, bool) {
	if list := t.sidecars.Whole(r, namespace); len(list) > 0 {
		return list[0].Key, true
	}
	return config.Key{}, false
}

// sidecarOf finds the Sidecar object for a proxy: one of its namespace that selects it, else its namespace's default,
// else the root namespace's. A Sidecar narrows what its own namespace's proxy sees and gives it nothing, so all labels
// that the proxy says select it: without its Sidecar it would see more.
func (t *Tables) sidecarOf(r *table.Reader, p vouch.Proxy) (config.Key, bool) {
	if list := t.sidecars.Picking(r, p.Namespace, p.Said); len(list) > 0 {
		return list[0].Key, true
	}
	if k, ok := t.defaultSidecar(r, p.Namespace); ok {
		return k, true
	}
	return t.defaultSidecar(r, t.in.RootNamespace(r))
}

func (t *Tables) declarePlacements() {
	t.Placements = table.Derive(t.who.Proxies, "placements", cmp.Compare[mesh.ProxyID], func(a, b Placement) bool { return a == b },
		func(r *table.Reader, id mesh.ProxyID, p vouch.Proxy, emit func(mesh.ProxyID, Placement)) {
			t.noteUnvouched(r, p)
			if p.Type == mesh.Router {
				emit(
					id,
					Placement{
						Layer:    mesh.Layer{Kind: mesh.GatewayLayer, Namespace: p.Namespace, Name: string(t.servedOf(r, p))},
						Families: p.Families(),
						Mutual:   p.Mutual,
						Holder:   holderOf(p),
					},
				)
				return
			}
			out := Placement{
				Layer:        mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: p.Namespace, Clients: t.clientsOf(r, p)},
				Interception: p.Interception,
				Families:     p.Families(),
				AutoVIP:      p.AutoVIP,
				Names:        p.Names,
				Mutual:       p.Mutual,
				Sources:      t.sourcesOf(r, p.Labels),
				Holder:       holderOf(p),
			}
			if k, ok := t.sidecarOf(r, p); ok {
				out.Sidecar = k
				if o, _ := table.Get(r, t.openings, k); !o.open {
					out.Layer.Kind, out.Layer.Name = mesh.SidecarLayer, k.Namespace+"/"+k.Name
				} else if o.policy != AsMesh && o.policy != t.meshPolicy(r) {
					out.Outbound = o.policy
				}
			}
			emit(id, out)
		})
}

// declareDemand derives what is wanted from where proxies stand. The groups may be large; each row made of them looks
// at one member at most.
func (t *Tables) declareDemand() {
	byLayer := table.Group(
		t.Placements,
		"placements/layer",
		mesh.CompareLayer,
		func(_ mesh.ProxyID, p Placement) []mesh.Layer { return p.layers() },
	).Broad()
	t.Layers = table.Derive(byLayer, "layers", mesh.CompareLayer, func(a, b LayerInfo) bool { return a == b },
		func(_ *table.Reader, l mesh.Layer, rows table.Rows[mesh.ProxyID, Placement], emit func(mesh.Layer, LayerInfo)) {
			var info LayerInfo
			if l.Kind == mesh.SidecarLayer {
				_, p, _ := rows.First()
				info.Sidecar = p.Sidecar
			}
			emit(l, info)
		}).Broad()
	t.GatewayViews = table.Derive(t.Layers, "gateway views", mesh.CompareLayer, nothing,
		func(_ *table.Reader, l mesh.Layer, _ LayerInfo, emit func(mesh.Layer, struct{})) {
			if l.Kind == mesh.GatewayLayer {
				emit(l, struct{}{})
			}
		}).Broad()
	t.GatewayListenerViews = demanded(t, "gateway listener views", CompareGatewayView, func(p Placement) []GatewayView {
		if p.Layer.Kind != mesh.GatewayLayer {
			return nil
		}
		return []GatewayView{{p.Layer, p.Families}}
	})
	t.ClusterViews = demanded(t, "cluster views", CompareClusterView, func(p Placement) []ClusterView {
		return perLayer(p, func(l mesh.Layer) ClusterView { return ClusterView{l, p.Mutual} })
	})
	t.ListenerViews = demanded(t, "listener views", CompareListenerView, func(p Placement) []ListenerView {
		if p.Layer.Kind == mesh.GatewayLayer {
			return nil
		}
		return perLayer(p, p.view)
	})
	outbound := demanded(t, "outbound views", compareOutboundView, func(p Placement) []OutboundView {
		if p.Outbound == AsMesh {
			return nil
		}
		return perLayer(p, func(l mesh.Layer) OutboundView { return OutboundView{l, p.Outbound} })
	})
	t.outboundViews = table.Group(
		outbound,
		"outbound views/layer",
		mesh.CompareLayer,
		func(v OutboundView, _ struct{}) []mesh.Layer { return []mesh.Layer{v.Layer} },
	).Broad()
	t.NameViews = demanded(t, "name views", CompareNameView, func(p Placement) []NameView {
		if !p.Names {
			return nil
		}
		return perLayer(p, func(l mesh.Layer) NameView { return NameView{l, p.AutoVIP} })
	})
	t.SecretViews = demanded(t, "secret views", CompareSecretView, func(p Placement) []SecretView {
		var views []SecretView
		for _, l := range p.layers() {
			if p.holds(l) {
				views = append(views, SecretView{l, p.Holder})
			}
		}
		return views
	})
	t.SecretViewsByLayer = table.Group(
		t.SecretViews,
		"secret views/layer",
		mesh.CompareLayer,
		func(v SecretView, _ struct{}) []mesh.Layer { return []mesh.Layer{v.Layer} },
	).Broad()
	t.SourceViews = demanded(t, "source views", CompareSourceView, func(p Placement) []SourceView {
		if p.Sources == "" {
			return nil
		}
		return []SourceView{{p.Layer, p.Sources}}
	})
	t.SourceViewsByLabel = table.Group(
		t.SourceViews,
		"source views/label",
		cmp.Compare[string],
		func(v SourceView, _ struct{}) []string { return v.Sources.Pairs() },
	).Broad()
	t.declareCrowd()
}

// demanded derives the variants of something that proxies want by where they stand.
func demanded[K comparable](t *Tables, name string, compare func(a, b K) int, of func(Placement) []K) *table.Table[K, struct{}] {
	by := table.Group(t.Placements, "placements/"+name, compare, func(_ mesh.ProxyID, p Placement) []K { return of(p) }).Broad()
	return table.Derive(by, name, compare, nothing,
		func(_ *table.Reader, v K, _ table.Rows[mesh.ProxyID, Placement], emit func(K, struct{})) {
			emit(v, struct{}{})
		}).Broad()
}

// nothing says that rows without content never differ.
func nothing(a, b struct{}) bool { return true }

func perLayer[V any](p Placement, view func(mesh.Layer) V) (out []V) {
	for _, l := range p.layers() {
		out = append(out, view(l))
	}
	return out
}

// Whose plain sidecars are connected, for a host that may be its own namespace's affair: nobody's, one namespace's (its name), several.
const several = "*"

func (t *Tables) declareCrowd() {
	t.plain = table.Group(t.Layers, "layers/plain by namespace", cmp.Compare[string], func(l mesh.Layer, _ LayerInfo) []string {
		if l.Kind != mesh.NamespaceLayer {
			return nil
		}
		return []string{l.Namespace}
	}).Broad()
	all := table.Group(
		t.plain,
		"layers/plain",
		func(_, _ struct{}) int { return 0 },
		func(string, table.Rows[mesh.Layer, LayerInfo]) []struct{} { return []struct{}{{}} },
	).Broad()
	t.crowd = table.Derive(all, "crowd", func(_, _ struct{}) int { return 0 }, func(a, b string) bool { return a == b },
		func(_ *table.Reader, k struct{}, rows table.Rows[string, table.Rows[mesh.Layer, LayerInfo]], emit func(struct{}, string)) {
			if rows.Len() > 1 {
				emit(k, several)
				return
			}
			namespace, _, _ := rows.First()
			emit(k, namespace)
		}).Broad()
}

func (t *Tables) declareAttachments() {
	t.Attachments = table.Derive(t.Placements, "attachments", cmp.Compare[mesh.ProxyID], mesh.Attachment.Equal,
		func(r *table.Reader, id mesh.ProxyID, p Placement, emit func(mesh.ProxyID, mesh.Attachment)) {
			inbound, ok := table.Get(r, t.inboundOf, id)
			a := attach(p, inbound, ok)
			a[mesh.Patches] = t.patches.Shelves(r, id)
			emit(id, a)
		})
}
