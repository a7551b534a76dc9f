package scope

import (
	"iter"
	"strings"

	"fairway/internal/mesh"
	"fairway/internal/table"
)

// ClusterShelf is where a variant of a layer's outbound clusters is published, the special ones (PassthroughCluster, …)
// of Public, Sidecar and gateway layers too.
func ClusterShelf(v ClusterView) mesh.Shelf { return mesh.Shelf{Layer: v.Layer, Part: v.part()} }

// LoadShelf is where a layer's load assignments are published.
func LoadShelf(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l} }

// RouteShelf is where a layer's route configurations are published, and their virtual hosts.
func RouteShelf(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l} }

// ListenerShelf is where a variant of a layer's outbound listeners is published.
func ListenerShelf(v ListenerView) mesh.Shelf { return mesh.Shelf{Layer: v.Layer, Part: v.part()} }

// outboundShelf is where, above a shelf of routes, those are published that proxies have whose policy for unknown hosts
// is their Sidecar's and not the mesh's.
func outboundShelf(s mesh.Shelf, o Outbound) mesh.Shelf {
	s.Part += "+" + o.String()
	return s
}

// OutboundShelves lists where a route of a shelf is published that depends on the policy for unknown hosts: on the
// shelf itself as the mesh says, and above it for each other policy that some proxy of the layer has.
func (t *Tables) OutboundShelves(r *table.Reader, s mesh.Shelf) iter.Seq2[mesh.Shelf, OutboundView] {
	return func(yield func(mesh.Shelf, OutboundView) bool) {
		if !yield(s, OutboundView{Layer: s.Layer}) {
			return
		}
		views, _ := table.Get(r, t.outboundViews, s.Layer)
		for v := range views.All() {
			if !yield(outboundShelf(s, v.Outbound), v) {
				return
			}
		}
	}
}

// RedirectShelf is where a gateway's virtual hosts are published that do nothing but send to HTTPS: those that rules claim shadow them.
func RedirectShelf(l mesh.Layer) mesh.Shelf { return mesh.Shelf{Layer: l, Part: "redirect"} }

// SourceShelf is where the virtual hosts are published that proxies with certain labels see instead of their layer's.
func SourceShelf(v SourceView) mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "sources/" + string(v.Sources)}
}

// GatewayListenerShelf is where a variant of a gateway's listeners is published.
func GatewayListenerShelf(v GatewayView) mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: strings.TrimPrefix(also(v.Families), "+")}
}

// InboundShelf is where the inbound side of equal workloads is published: its clusters, its listeners, its routes.
func InboundShelf(k InboundKey) mesh.Shelf {
	return mesh.Shelf{Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: k.Namespace}, Part: "inbound/" + k.Spec}
}

// NameShelf is where a variant of a layer's names is published.
func NameShelf(v NameView) mesh.Shelf { return mesh.Shelf{Layer: v.Layer, Part: v.part()} }

// part names the variant: "vip", or nothing.
func (v NameView) part() string {
	if v.AutoVIP {
		return "vip"
	}
	return ""
}

// GatewayMutualShelf is where a variant of a gateway's listeners is published that serve mutual TLS with the proxy's
// own identity, for proxies that have one.
func GatewayMutualShelf(v GatewayView) mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: "mutual" + also(v.Families)}
}

// SecretShelf is where the secrets are published for a holder that resources of a kind name, which stand on shelves of the layer.
func SecretShelf(v SecretView, named SecretUse) mesh.Shelf {
	return mesh.Shelf{Layer: v.Layer, Part: string(named) + v.Holder.part()}
}

// part names the holder.
func (h Holder) part() string {
	if h.Here {
		return "@here"
	}
	return "/" + h.Account
}

// SecretUse tells what names a secret.
type SecretUse string

// The kinds of resources that name secrets.
const (
	ByListeners SecretUse = "listeners"
	ByClusters  SecretUse = "clusters"
)

// also names families in a variant's name, unless they are the usual ones.
func also(f mesh.Families) string {
	if f == mesh.IPv4 {
		return ""
	}
	return "+" + strings.ToLower(f.String())
}

// part names the variant: "redirect", "tproxy+vip", "redirect+dual".
func (v ListenerView) part() string {
	part := strings.ToLower(v.Interception.String()) + also(v.Families)
	if v.Outbound != AsMesh {
		part += "+" + v.Outbound.String()
	}
	if v.AutoVIP {
		part += "+vip"
	}
	return part
}

// part names the variant: "mutual", or nothing.
func (v ClusterView) part() string {
	if v.Mutual {
		return "mutual"
	}
	return ""
}

// attachRoutes adds a shelf of routes and their virtual hosts, and what of them is of the proxy's own policy.
func (p Placement) attachRoutes(a *mesh.Attachment, s mesh.Shelf) {
	shelves := []mesh.Shelf{s}
	if p.Outbound != AsMesh {
		shelves = append(shelves, outboundShelf(s, p.Outbound))
	}
	a[mesh.Routes] = append(a[mesh.Routes], shelves...)
	a[mesh.VirtualHosts] = append(a[mesh.VirtualHosts], shelves...)
}

// attach lists the shelves of a proxy, the lowest first.
func attach(p Placement, inbound InboundKey, hasInbound bool) mesh.Attachment {
	var a mesh.Attachment
	a[mesh.Bundles] = []mesh.Shelf{{Layer: mesh.Public}}
	for _, l := range p.layers() {
		a[mesh.Clusters] = append(a[mesh.Clusters], ClusterShelf(ClusterView{l, p.Mutual}))
		a[mesh.Loads] = append(a[mesh.Loads], LoadShelf(l))
		if l.Kind == mesh.GatewayLayer {
			a[mesh.VirtualHosts] = append(a[mesh.VirtualHosts], RedirectShelf(l))
		}
		p.attachRoutes(&a, RouteShelf(l))
		if p.holds(l) {
			a[mesh.Secrets] = append(a[mesh.Secrets], SecretShelf(SecretView{l, p.Holder}, ByClusters))
			if l.Kind == mesh.GatewayLayer {
				a[mesh.Secrets] = append(a[mesh.Secrets], SecretShelf(SecretView{l, p.Holder}, ByListeners))
			}
		}
		if l.Kind == mesh.GatewayLayer {
			v := GatewayView{l, p.Families}
			a[mesh.Listeners] = append(a[mesh.Listeners], GatewayListenerShelf(v))
			if p.Mutual {
				a[mesh.Listeners] = append(a[mesh.Listeners], GatewayMutualShelf(v))
			}
		} else {
			a[mesh.Listeners] = append(a[mesh.Listeners], ListenerShelf(p.view(l)))
		}
		if p.Names {
			a[mesh.NameTables] = append(a[mesh.NameTables], NameShelf(NameView{l, p.AutoVIP}))
		}
	}
	if p.Sources != "" {
		p.attachRoutes(&a, SourceShelf(SourceView{p.Layer, p.Sources}))
	}
	if hasInbound {
		s := InboundShelf(inbound)
		a[mesh.Clusters] = append(a[mesh.Clusters], s)
		a[mesh.Listeners] = append(a[mesh.Listeners], s)
		a[mesh.Routes] = append(a[mesh.Routes], s)
	}
	return a
}
