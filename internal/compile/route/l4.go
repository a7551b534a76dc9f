package route

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// TCP is what the VirtualServices of a host say of plain connections to one of its ports, for sidecars of a layer with
// the labels that matter to it: which connections go where. Nil: no rule speaks of them. The first rule with tcp routes
// counts.
func (t *Tables) TCP(r *table.Reader, layer mesh.Layer, host mesh.Host, port uint32, labels mesh.Labels) []route.Chain {
	for _, o := range t.sc.VirtualServices(r, layer, host) {
		if rule := RuleOf(o); len(rule.Spec.GetTcp()) > 0 {
			return t.Builder(r, layer, viewerOf(layer, labels, port)).TCP(rule)
		}
	}
	return nil
}

// TLS is TCP for connections whose TLS server name is routed on.
func (t *Tables) TLS(r *table.Reader, layer mesh.Layer, host mesh.Host, port uint32, labels mesh.Labels) []route.Chain {
	for _, o := range t.sc.VirtualServices(r, layer, host) {
		if rule := RuleOf(o); len(rule.Spec.GetTls()) > 0 {
			return t.Builder(r, layer, viewerOf(layer, labels, port)).TLS(rule)
		}
	}
	return nil
}

// Forward sends connections to clusters, as the DestinationRule of the first of them says: a listener, not a cluster,
// has to know how long a connection may be idle or last, and what its endpoint is chosen by. One cluster names the
// statistics itself, several have stat. to is not empty.
func (t *Tables) Forward(r *table.Reader, layer mesh.Layer, to []route.Weighted, stat string) listener.TCP {
	first := to[0].Cluster
	out := listener.TCP{StatPrefix: stat}
	if len(to) == 1 {
		out.StatPrefix = first.String()
	}
	for _, w := range to {
		out.Clusters = append(out.Clusters, listener.Weighted{Cluster: w.Cluster.String(), Weight: w.Weight})
	}
	service := t.sc.Service(r, layer, first.Host)
	if service == nil {
		return out
	}
	if rule := t.sc.Rule(r, layer, service); rule != nil {
		p := cluster.Resolve(rule.Spec, first.Subset, first.Port)
		out.IdleTimeout = p.TCPIdleTimeout().AsDuration()
		out.MaxDuration = p.MaxConnectionDuration().AsDuration()
		out.HashSource = p.Hash().GetUseSourceIp()
	}
	return out
}

// viewerOf is the viewer that sidecars of a layer with the labels are.
func viewerOf(layer mesh.Layer, labels mesh.Labels, port uint32) route.Viewer {
	return route.Viewer{Namespace: layer.Namespace, Labels: labels, Gateways: []string{route.Mesh}, Port: port}
}

// RuleOf is a VirtualService as envoy/route takes it.
func RuleOf(o *config.Object) route.Rule {
	rule := route.Rule{Namespace: o.Namespace, Name: o.Name, Spec: config.Spec[*networking.VirtualService](o)}
	if o.Made != nil {
		rule.ByPath, rule.Ports = o.Made.ByPath, o.Made.Ports
	}
	return rule
}
