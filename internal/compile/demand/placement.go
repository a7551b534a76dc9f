package demand

import (
	"cmp"
	"unique"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/compile/sidecar"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Placement says which layer and which values of traits a proxy has. It is comparable.
type Placement struct {
	Layer   mesh.Layer            // the topmost: a NamespaceLayer has Public below it
	Sidecar config.Key            // the Sidecar object that selects the proxy; zero: none
	values  unique.Handle[placed] // of traits
}

// Layers lists the layers that the proxy sees, the lowest first.
func (p Placement) Layers() []mesh.Layer {
	if p.Layer.Kind == mesh.NamespaceLayer {
		return []mesh.Layer{mesh.Public, p.Layer}
	}
	return []mesh.Layer{p.Layer}
}

// Holder identifies a proxy for the delivery of Secrets, by the service account that it proved, of its layer's namespace. It is comparable;
// the zero Holder gets no Secrets.
type Holder struct {
	Account string
	Here    bool // it proved nothing, and its stream comes from the control plane's own machine
}

// holderOf returns the Holder of a proxy.
func holderOf(p vouch.Proxy) Holder {
	switch p.Standing {
	case mesh.Proven:
		return Holder{Account: p.ServiceAccount}
	case mesh.Here:
		return Holder{Here: true}
	}
	return Holder{}
}

func (t *Tables) declarePlacements() {
	t.declareChoices()
	t.Placements = table.Derive(t.who.Proxies, "placements", cmp.Compare[mesh.ProxyID], table.Same[Placement],
		func(r *table.Reader, id mesh.ProxyID, p vouch.Proxy, emit func(mesh.ProxyID, Placement)) {
			t.noteUnvouched(r, p)
			by, excessive := p, t.excessive(r, id, p)
			if excessive {
				by = mute(p)
			}
			if excessive || p.Reduced {
				r.Note(t.tooMany(p))
			}
			for _, note := range t.notes {
				note(r, p)
			}
			emit(id, t.place(r, p, by))
		})
}

// place returns the placement of a proxy. by is the proxy with only those of its claims that may choose variants. Its Sidecar and its own
// policies follow all claims of p.
func (t *Tables) place(r *table.Reader, p, by vouch.Proxy) Placement {
	layer, values := t.layerOf(r, by), t.values(r, p, by)
	var selected config.Key
	if p.Type != mesh.Router {
		if k, ok := t.sidecars.Of(r, p); ok {
			selected = k
			if o := t.sidecars.Opening(r, k); !o.Open {
				layer.Kind, layer.Name = mesh.SidecarLayer, k.Namespace+"/"+k.Name
			} else if o.Policy != sidecar.AsMesh && o.Policy != t.MeshPolicy(r) {
				values[Outbound.core.at] = o.Policy
			}
		}
	}
	return Placement{layer, selected, unique.Make(values)}
}

// layerOf returns the layer of a proxy, unless its Sidecar gives it another.
func (t *Tables) layerOf(r *table.Reader, p vouch.Proxy) mesh.Layer {
	if p.Type == mesh.Router {
		return mesh.Layer{Kind: mesh.GatewayLayer, Namespace: p.Namespace, Name: string(t.servedOf(r, p))}
	}
	return mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: p.Namespace, Clients: t.clientsOf(r, p)}
}

// AccountOf returns the object of problems that proxies have because of their claims: their service account, or, for proxies in plaintext,
// their namespace.
func AccountOf(p vouch.Proxy) mesh.ObjectRef {
	if p.Standing != mesh.Proven {
		return mesh.ObjectRef{Kind: "Namespace", Name: p.Namespace}
	}
	return mesh.ObjectRef{Kind: "ServiceAccount", Namespace: p.Namespace, Name: p.ServiceAccount}
}

// MeshPolicy returns the policy for traffic to unknown hosts if no Sidecar sets one: MeshConfig.outboundTrafficPolicy. It is never AsMesh.
func (t *Tables) MeshPolicy(r *table.Reader) sidecar.Outbound {
	switch t.in.OutboundPolicy(r).GetMode() {
	case meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY:
		return sidecar.RegistryOnly
	case meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		return sidecar.ByName
	}
	return sidecar.AllowAny
}
