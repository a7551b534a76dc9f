package route

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/config"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// TCP returns the routes of plain connections to a port, from the VirtualServices of a host, for sidecars of a layer with the labels that
// matter to it. Nil: no rule routes them. The first rule with tcp routes counts.
func (t *Tables) TCP(r *table.Reader, layer mesh.Layer, host mesh.Host, port uint32, labels mesh.Labels) []route.Chain {
	for _, o := range t.sc.VirtualServices(r, layer, host) {
		if rule := RuleOf(o); len(rule.Spec.GetTcp()) > 0 {
			return t.Builder(r, layer, viewerOf(layer, labels, port)).TCP(rule)
		}
	}
	return nil
}

// TLS is TCP for connections that are routed by their TLS server name.
func (t *Tables) TLS(r *table.Reader, layer mesh.Layer, host mesh.Host, port uint32, labels mesh.Labels) []route.Chain {
	for _, o := range t.sc.VirtualServices(r, layer, host) {
		if rule := RuleOf(o); len(rule.Spec.GetTls()) > 0 {
			return t.Builder(r, layer, viewerOf(layer, labels, port)).TLS(rule)
		}
	}
	return nil
}

// Sources lists the sets of labels of connected sidecars that rules may tell from others, by TCP, TLS or Dubbo routes, depending on the
// protocol. Only sidecars that see the layer's resources count.
func (t *Tables) Sources(r *table.Reader, layer mesh.Layer, host mesh.Host, protocol mesh.Protocol) []mesh.Labels {
	var asked []mesh.Labels
	secure := protocol.IsTLS()
	for _, o := range t.sc.VirtualServices(r, layer, host) {
		spec := RuleOf(o).Spec
		if protocol == mesh.Dubbo {
			asked = append(asked, route.SourcesOfDubbo(spec)...)
			continue
		}
		if secure && len(spec.GetTls()) > 0 {
			asked = route.SourcesOfTLS(spec)
			break
		}
		if !secure && len(spec.GetTcp()) > 0 {
			asked = route.SourcesOfTCP(spec)
			break
		}
	}
	var out []mesh.Labels
	t.views.each(r, asked, func(v demand.View) {
		if v.Layer == layer || layer == mesh.Public && v.Layer.Kind == mesh.NamespaceLayer {
			out = append(out, sources.Of(v))
		}
	})
	slices.SortFunc(out, cmp.Compare[mesh.Labels])
	return slices.Compact(out)
}

// Forward sends connections to clusters, as the DestinationRule of the first of them says: a listener, not a cluster, has to know how long
// a connection may be idle or last, and how its endpoint is chosen. One cluster names the statistics itself, several have stat. to is not
// empty. sni are the server names of the connections, if they are routed by server name: only then may connections go to the names that
// they are for.
func (t *Tables) Forward(r *table.Reader, layer mesh.Layer, to []route.Weighted, sni []string, stat string) listener.TCP {
	first := to[0].Cluster
	out := listener.TCP{StatPrefix: stat}
	port, ok := t.led(r, layer, to, sni)
	if !ok {
		return listener.TCP{StatPrefix: cluster.BlackHoleName, Clusters: []listener.Weighted{{Cluster: cluster.BlackHoleName}}}
	}
	if out.ResolvePort = port; port != 0 {
		out.Resolve = t.in.Answers(r)
	}
	if len(to) == 1 {
		out.StatPrefix = first.String()
	}
	for _, w := range to {
		out.Clusters = append(out.Clusters, listener.Weighted{Cluster: w.Cluster.String(), Weight: w.Weight})
	}
	out.Tunnel = t.tunnel(r, layer, to)
	service := t.sc.Service(r, layer, first.Host)
	if service == nil {
		return out
	}
	if rule := t.sc.Rule(r, layer, service); rule != nil {
		p := cluster.Resolve(rule.Spec, first.Subset, first.Port)
		out.IdleTimeout = p.TCPIdleTimeout().AsDuration()
		if p.TCPIdleTimeout() != nil && out.IdleTimeout == 0 {
			out.IdleTimeout = listener.NoTimeout
		}
		out.MaxDuration = p.MaxConnectionDuration().AsDuration()
		out.HashSource = p.Hash().GetUseSourceIp()
	}
	return out
}

// tunnel returns the tunnel for connections to clusters. One listener's proxy has one tunnel: if the destinations of a route differ in it,
// there is none, and the rule that asks for it gets a problem.
func (t *Tables) tunnel(r *table.Reader, layer mesh.Layer, to []route.Weighted) listener.Tunnel {
	var found []listener.Tunnel
	var by *config.Object
	for _, w := range to {
		var here listener.Tunnel
		if service := t.sc.Service(r, layer, w.Cluster.Host); service != nil {
			if rule := t.sc.Rule(r, layer, service); rule != nil {
				if s := cluster.Tunnel(rule.Spec, w.Cluster.Subset); s != nil {
					here = listener.Tunnel{
						Target: net.JoinHostPort(s.GetTargetHost(), strconv.FormatUint(uint64(s.GetTargetPort()), 10)),
						Post:   s.GetProtocol() == "POST",
					}
					by = rule.Objects[0]
				}
			}
		}
		if !slices.Contains(found, here) {
			found = append(found, here)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	if by != nil {
		r.Note(by.Problem("spec.trafficPolicy.tunnel", code.Conflict, mesh.Warning,
			"a route shares its connections among destinations that are tunnelled and others, or to several targets: "+
				"those of that route are not tunnelled",
			"give all destinations of the route the same tunnel, or write routes of one destination each"))
	}
	return listener.Tunnel{}
}

// viewerOf is the viewer that sidecars of a layer with the labels are.
func viewerOf(layer mesh.Layer, labels mesh.Labels, port uint32) route.Viewer {
	return route.Viewer{Namespace: layer.Namespace, Labels: labels, Gateways: []string{route.Mesh}, Port: port}
}

// RuleOf is a VirtualService as envoy/route takes it.
func RuleOf(o *config.Object) route.Rule {
	rule := route.Rule{Namespace: o.Namespace, Name: o.Name, Spec: config.Spec[*networking.VirtualService](o)}
	if o.Made != nil {
		rule.ByPath, rule.Ports, rule.Routes = o.Made.ByPath, o.Made.Ports, o.Made.Routes
	}
	return rule
}
