package demand

import (
	"cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/compile/policy"
	"fairway/internal/compile/sidecar"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Placement is where one proxy stands. It is comparable.
type Placement struct {
	Layer        mesh.Layer       // the topmost: a NamespaceLayer has Public below it
	Sidecar      config.Key       // the Sidecar object that selects the proxy; zero: none
	Outbound     sidecar.Outbound // the Sidecar's own policy, where it has no layer of its own and the mesh says otherwise
	Interception mesh.Interception
	Families     mesh.Families
	Locality     mesh.Locality
	Network      string          // that the proxy is of; empty: of none
	Machine      mesh.MachineRef // where the proxy runs, while that matters
	Cluster      string          // that the proxy is of, while some service looks otherwise there; empty: of none that matters
	Ranked       bool            // some rule ranks endpoints by labels (LocalityLoadBalancerSetting.failover_priority)
	Ranks        mesh.Labels     // those of the proxy's labels that such rules compare with endpoints'
	AutoVIP      bool
	Names        bool              // the proxy's agent resolves names
	Mutual       bool              // the proxy can speak mutual TLS
	Discovers    bool              // its Envoy goes by the zones of the workload's own peers
	Sources      mesh.Labels       // those of the proxy's labels that sourceLabels of some VirtualService ask for
	Holder       Holder            // who it is, where Secrets are concerned
	Telemetry    string            // which Telemetries of its namespace hold for it; empty: none
	Extensions   string            // which extensions hold for it; empty: none
	Policies     policy.Set        // of a gateway: which policies hold for it
	HTTP         mesh.HTTPSettings // what it says of the requests that it takes, but for Own
	Own          mesh.OwnSettings
	Patches      string // which patches change what it is sent, in their order; empty: none does
}

// singular says whether something of what the proxy is sent is made for it, or for those that say the same of themselves.
func (p Placement) singular() bool {
	return p.Telemetry != "" || p.Extensions != "" || p.Patches != "" || p.Own != (mesh.OwnSettings{}) || p.Discovers
}

// Layers is what the proxy sees, from below.
func (p Placement) Layers() []mesh.Layer {
	if p.Layer.Kind == mesh.NamespaceLayer {
		return []mesh.Layer{mesh.Public, p.Layer}
	}
	return []mesh.Layer{p.Layer}
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
			if _, odd := t.networks.LocalityOf(r, p.Proxy); odd {
				r.Note(elsewhere(p))
			}
			emit(id, t.place(r, p, by))
		})
}

// place returns where a proxy stands. by is the proxy with that of its own word which chooses variants; its Sidecar and its own policies
// follow all that p says.
func (t *Tables) place(r *table.Reader, p, by vouch.Proxy) Placement {
	ranked, ranks := t.ranksOf(r, by)
	where, _ := t.networks.LocalityOf(r, p.Proxy)
	http, own := t.in.HTTPSettings(r, p.Proxy).Apart()
	out := Placement{
		Families:   p.Families(),
		Locality:   where,
		Network:    t.networks.OfProxy(r, p.Proxy),
		Machine:    t.networks.MachineOf(r, p.Proxy),
		Cluster:    t.clusterOf(r, p),
		Ranked:     ranked,
		Ranks:      ranks,
		Mutual:     p.Mutual,
		Discovers:  p.Discovers,
		HTTP:       http,
		Own:        own,
		Holder:     holderOf(p),
		Telemetry:  t.telemetry.Of(r, by),
		Patches:    t.patches.Of(r, by),
		Extensions: t.extensions.Of(r, by),
	}
	if p.Type == mesh.Router {
		out.Layer = mesh.Layer{Kind: mesh.GatewayLayer, Namespace: p.Namespace, Name: string(t.servedOf(r, by))}
		out.Policies = t.policies.OfProxy(r, by)
		return out
	}
	out.Layer = mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: p.Namespace, Clients: t.clientsOf(r, by)}
	out.Interception, out.AutoVIP, out.Names = p.Interception, p.AutoVIP, p.Names
	out.Sources = t.sourcesOf(r, by.Labels)
	if k, ok := t.sidecars.Of(r, p); ok {
		out.Sidecar = k
		if o := t.sidecars.Opening(r, k); !o.Open {
			out.Layer.Kind, out.Layer.Name = mesh.SidecarLayer, k.Namespace+"/"+k.Name
		} else if o.Policy != sidecar.AsMesh && o.Policy != t.MeshPolicy(r) {
			out.Outbound = o.Policy
		}
	}
	return out
}

// accountOf is whom a problem is about that proxies have by what they say of themselves: their service account, or, of proxies in
// plaintext, their namespace.
func accountOf(p vouch.Proxy) mesh.ObjectRef {
	if p.Standing != mesh.Proven {
		return mesh.ObjectRef{Kind: "Namespace", Name: p.Namespace}
	}
	return mesh.ObjectRef{Kind: "ServiceAccount", Namespace: p.Namespace, Name: p.ServiceAccount}
}

// elsewhere is the problem of proxies that say a locality in which nothing of the mesh is.
func elsewhere(p vouch.Proxy) mesh.Problem {
	return mesh.Problem{
		Object: accountOf(p), Code: code.UnknownLocality, Severity: mesh.Info,
		Message: "its proxies say localities in which no endpoint, Node, WorkloadEntry or WorkloadGroup of the mesh is: they do not count",
		Fix:     "give the locality to the workload: by its Node's labels, its WorkloadEntry or its WorkloadGroup",
	}
}

// MeshPolicy is what becomes of traffic to unknown hosts where no Sidecar says: MeshConfig.outboundTrafficPolicy. It is never AsMesh.
func (t *Tables) MeshPolicy(r *table.Reader) sidecar.Outbound {
	switch t.in.OutboundPolicy(r).GetMode() {
	case meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY:
		return sidecar.RegistryOnly
	case meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		return sidecar.ByName
	}
	return sidecar.AllowAny
}
