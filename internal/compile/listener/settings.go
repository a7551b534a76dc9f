package listener

import (
	"fmt"
	"slices"
	"time"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/sidecar"
	"fairway/internal/envoy/dynamic"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// settings holds what the mesh and the layer set for every listener. It is comparable.
type settings struct {
	Log       listener.AccessLog
	Normalize listener.Normalization
	Detection time.Duration
	AllowAny  bool              // connections to hosts that no one declared go on; see of
	Unknown   string            // the cluster that they go on to, if AllowAny is set
	ByName    bool              // but requests to such hosts go to the hosts that they name
	Answers   dynamic.Answers   // the addresses that count if the proxy resolves names for its workload
	Own       mesh.HTTPSettings // what the proxies' own configuration says; see of
	Outbound  uint32            // virtualOutbound's port
	Inbound   uint32            // virtualInbound's
	Agent     [4]uint32         // the ports of Envoy and its agent that MeshConfig gives; 0: none
}

func (s settings) same(o settings) bool {
	told := s.Log.Telemetry.Same(o.Log.Telemetry)
	s.Log.Telemetry, o.Log.Telemetry = nil, nil
	return told && s == o
}

// declareSettings gathers them in one row a layer, so that a listener reads one row and not one a field.
func (t *Tables) declareSettings() {
	t.settings = table.Derive(t.demand.Layers, "listener/settings", mesh.CompareLayer, settings.same,
		func(r *table.Reader, l mesh.Layer, _ demand.LayerInfo, emit func(mesh.Layer, settings)) {
			if l.Kind == mesh.GatewayLayer {
				return
			}
			unknown := t.sc.Unknown(r, demand.View{Layer: l})
			named := unknown == route.ByName()
			if named {
				unknown = route.Passthrough()
			}
			t.noteEgressProxy(r, l)
			var own [4]uint32
			ports, _ := t.in.ProxyPlaces(r)
			copy(own[:], ports)
			emit(l, settings{
				Log:       t.telemetry.AccessLog(r, false),
				Normalize: listener.NormalizationOf(t.in.PathNormalization(r)),
				Detection: t.in.ProtocolDetectionTimeout(r),
				AllowAny:  unknown != (mesh.ClusterKey{}),
				Unknown:   unknown.String(),
				ByName:    named,
				Answers:   t.in.Answers(r),
				Outbound:  t.in.ProxyListenPort(r),
				Inbound:   t.in.ProxyInboundPort(r),
				Agent:     own,
			})
		}).SkipInOrigins()
}

// noteEgressProxy notes an egress proxy that the layer does not see: traffic to unknown hosts then fails.
func (t *Tables) noteEgressProxy(r *table.Reader, l mesh.Layer) {
	o, to, ok := t.sc.EgressProxy(r, l)
	if !ok {
		return
	}
	note := func(field, code, message, fix string) {
		r.Note(o.Problem("spec.outboundTrafficPolicy.egressProxy"+field, code, mesh.Error, message+": traffic to unknown hosts fails", fix))
	}
	seen := t.sc.View(r, l, to.Host)
	if seen == nil || seen.Service == nil {
		note(".host", code.UnknownHost, fmt.Sprintf("the Sidecar imports no service %s", to.Host), "import it in an egress listener")
		return
	}
	if seen.Service.Resolution == mesh.DynamicDNS {
		note(".host", code.NotUnder, fmt.Sprintf("%s is not a proxy: it matches the names below it", to.Host), "name a host with endpoints")
		return
	}
	if _, has := seen.Service.Port(to.Port); !has {
		note(".port", code.UnknownPort, fmt.Sprintf("%s has no port %d", to.Host, to.Port), "write one that it has")
	}
	if to.Subset != "" && t.sc.RuleOf(r, seen).Subset(to.Subset) == nil {
		note(".subset", code.UnknownSubset, fmt.Sprintf("%s has no subset %s", to.Host, to.Subset), "define it in a DestinationRule")
	}
}

// of returns the settings of a variant, with its proxies' own outbound policy and settings of requests.
func (s settings) of(v demand.View) settings {
	s.Own = requests.Of(v)
	if policy := demand.Outbound.Of(v); policy != sidecar.AsMesh {
		s.AllowAny, s.Unknown, s.ByName = policy == sidecar.AllowAny, passthrough, false
	}
	return s
}

// http returns the settings for routing the workload's requests on a listener. listening names it in statistics.
func (s settings) http(listening string) listener.HTTP {
	return listener.HTTP{
		Side: listener.SidecarOutbound, StatPrefix: "outbound_" + listening, Normalize: s.Normalize, AccessLog: s.Log, Own: s.Own,
	}
}

// reserved reports whether a listener on a port and every address would conflict with the sidecar's own: Envoy refuses a second one.
func (s settings) reserved(port uint32) bool { return port == s.Outbound || port == s.Inbound }

// agents reports whether Envoy or its agent listens on a port of the loopback address.
func (s settings) agents(port uint32) bool {
	return mesh.IsAgentPort(port) || slices.Contains(s.Agent[:], port)
}

// rest forwards connections that nothing else takes.
func (s settings) rest(intercepted bool) listener.TCP {
	name := blackHole
	if s.AllowAny && intercepted {
		name = s.Unknown
	}
	return s.to(name)
}

// to forwards connections to one of the clusters that lead to no service.
func (s settings) to(cluster string) listener.TCP {
	return listener.TCP{StatPrefix: cluster, Clusters: []listener.Weighted{{Cluster: cluster}}, AccessLog: s.Log}
}
