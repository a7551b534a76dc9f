package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config"
	"fairway/internal/config/native"
	"fairway/internal/mesh"
)

// The memory that the control plane needs for each message beside its text: measured with real rules, rounded up.
const (
	clusterBytes  = 2000
	endpointBytes = 400
	routeBytes    = 150
	chainBytes    = 300
	addressBytes  = 400
	joinedBytes   = 900 // a route that a delegate gives, beside its text, whether or not it is sent to a proxy
	expansion     = 2   // a rule's text as Envoy's messages
	// selectedEndpoints is the assumed number of workloads that a ServiceEntry selects.
	selectedEndpoints = 500
	// portResources are a cluster, its load assignment and a virtual host for each port of a service.
	portResources = 3
	// subsetResources are a cluster and its load assignment for each subset of a port.
	subsetResources = 2
	// hostResources are a virtual host, and the lookup of a host's rule: together they take as long to build as 2 resources.
	hostResources = 2
	// listedResources is the weight of a host that is only listed, in a Gateway or a Sidecar.
	listedResources = 0.4
	// httpListeners is the assumed number of outbound HTTP listeners of a proxy: one for each port number.
	httpListeners = 256
)

// weigh returns the weight of an object.
func (s *surroundings) weigh(o *config.Object, root string) weight {
	namespace := o.Namespace
	if namespace == root {
		namespace = "" // holds in every namespace
	}
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		return s.virtualService(o, spec)
	case *networking.ServiceEntry:
		return serviceEntry(spec)
	case *networking.DestinationRule:
		return s.destinationRule(o, spec)
	case *networking.EnvoyFilter:
		return s.envoyFilter(spec, s.portsIn(namespace))
	case *networking.Sidecar:
		return sidecar(spec)
	case *networking.Gateway:
		return gateway(spec)
	}
	if spec, is := o.Native.(*networkingv1.IngressSpec); is {
		return ofIngress(spec)
	}
	if len(o.Parents()) > 0 {
		return s.ofRoute(o)
	}
	switch o.Kind {
	case config.AuthorizationPolicy, config.RequestAuthentication:
		return inListeners(o.Spec, 2*s.portsIn(namespace), expansion+1)
	case config.Telemetry:
		return inListeners(o.Spec, 2*s.portsIn(namespace)+usualPorts, 2*expansion)
	case config.WasmPlugin, config.TrafficExtension:
		return inListeners(o.Spec, 2*s.portsIn(namespace)+usualPorts, 1)
	}
	return weight{}
}

// inListeners returns the weight of a spec that is repeated in each listener of a proxy.
func inListeners(spec proto.Message, listeners, times float64) weight {
	bytes := float64(proto.Size(spec)) * times
	return weight{
		fixed: size{resources: 1, bytes: bytes * listeners},
		why:   fmt.Sprintf("%.0f KiB × %.0f filter chains", bytes/1024, listeners),
	}
}

// httpSize is the size of the http part of a VirtualService for one host.
type httpSize struct {
	rules, routes, bytes float64 // http items; their matches, each a route of Envoy's; bytes of all
}

// add counts one item, for each of its matches.
func (h *httpSize) add(r *networking.HTTPRoute) {
	matches := float64(max(1, len(r.GetMatch())))
	var inMatches float64
	for _, m := range r.GetMatch() {
		inMatches += float64(proto.Size(m))
	}
	rest := float64(proto.Size(r)) - inMatches
	h.rules++
	h.routes += matches
	h.bytes += expansion*inMatches + matches*(expansion*max(rest, 0)+routeBytes)
}

// join counts a delegate's items within an item that delegates: each match of one is combined with each of the other.
func (h *httpSize) join(r *networking.HTTPRoute, d *httpSize) {
	var own httpSize
	own.add(r)
	h.rules += d.rules
	h.routes += own.routes * d.routes
	h.bytes += own.routes*d.bytes + own.bytes*d.routes
}

func httpOf(spec *networking.VirtualService) *httpSize {
	h := &httpSize{}
	for _, r := range spec.GetHttp() {
		h.add(r)
	}
	return h
}

// virtualService: a virtual host for each host and gateway, with all routes in each.
func (s *surroundings) virtualService(o *config.Object, spec *networking.VirtualService) weight {
	var h, joined httpSize
	for _, r := range spec.GetHttp() {
		if r.GetDelegate() == nil {
			h.add(r)
			continue
		}
		if d := s.delegates[delegateKey(o, r.GetDelegate())]; d != nil {
			joined.join(r, d)
		}
	}
	routes, bytes := h.routes+joined.routes, h.bytes+joined.bytes
	chains, chainsBytes := l4Size(spec)
	places := s.places(o, spec)
	hosts := float64(len(spec.GetHosts()))
	w := weight{joined: joined.rules, why: fmt.Sprintf("%.0f hosts × %.0f routes × %.0f gateways", hosts, routes+chains, places)}
	w.fixed = size{hosts * places * (hostResources + chains), hosts * places * (bytes + chainsBytes)}
	w.fixed.bytes += joined.bytes + joined.routes*joinedBytes
	if toMesh(spec) {
		for _, host := range spec.GetHosts() {
			if strings.HasPrefix(host, "*") {
				w.each = size{1, bytes + chainsBytes}
			}
		}
	}
	return w
}

// l4Size returns the size of the tcp and tls parts for one host: a filter chain for each match.
func l4Size(spec *networking.VirtualService) (chains, bytes float64) {
	add := func(matches float64, names int, m proto.Message) {
		n := max(1, matches)
		chains += n
		bytes += n*(expansion*float64(proto.Size(m))+chainBytes) + float64(names)*chainBytes/4
	}
	for _, r := range spec.GetTls() {
		names := 0
		for _, m := range r.GetMatch() {
			names += len(m.GetSniHosts()) + len(m.GetDestinationSubnets())
		}
		add(float64(len(r.GetMatch())), names, r)
	}
	for _, r := range spec.GetTcp() {
		add(float64(len(r.GetMatch())), 0, r)
	}
	return chains, bytes
}

// places returns in how many listeners a VirtualService's hosts are: one for the mesh, one for each server of its gateways.
func (s *surroundings) places(o *config.Object, spec *networking.VirtualService) float64 {
	if len(spec.GetGateways()) == 0 {
		return 1
	}
	n := 0.0
	for _, name := range spec.GetGateways() {
		n += max(1, s.gateways[gatewayKey(o, name)])
	}
	return n
}

func gatewayKey(o *config.Object, name string) config.Key {
	namespace, short := config.GatewayName(o.Namespace, name)
	return config.Key{Kind: config.Gateway, Namespace: namespace, Name: short}
}

func toMesh(spec *networking.VirtualService) bool {
	for _, g := range spec.GetGateways() {
		if g == "mesh" {
			return true
		}
	}
	return len(spec.GetGateways()) == 0
}

// serviceEntry: a cluster and a load assignment with all endpoints for each host and port, a listener for each address and port.
func serviceEntry(spec *networking.ServiceEntry) weight {
	hosts, ports := float64(len(spec.GetHosts())), float64(max(1, len(spec.GetPorts())))
	endpoints, bytes := float64(len(spec.GetEndpoints())), 0.0
	for _, e := range spec.GetEndpoints() {
		bytes += float64(proto.Size(e)) + endpointBytes
	}
	if spec.GetWorkloadSelector() != nil {
		endpoints, bytes = selectedEndpoints, selectedEndpoints*endpointBytes
	}
	for _, name := range spec.GetSubjectAltNames() {
		bytes += float64(len(name))
	}
	addresses := float64(max(1, len(spec.GetAddresses())))
	return weight{
		fixed: size{portResources * hosts * ports * addresses, hosts * ports * (clusterBytes + bytes + addresses*addressBytes)},
		why:   fmt.Sprintf("%.0f hosts × %.0f ports × %.0f addresses, %.0f endpoints each", hosts, ports, addresses, endpoints),
	}
}

// destinationRule: a cluster for each port and subset of each host that it is for, and a load assignment with the endpoints that each
// subset selects.
func (s *surroundings) destinationRule(o *config.Object, spec *networking.DestinationRule) weight {
	subsets := float64(1 + len(spec.GetSubsets()))
	policy := float64(proto.Size(spec.GetTrafficPolicy()))
	bytes := subsets * (clusterBytes + expansion*policy)
	for _, sub := range spec.GetSubsets() {
		bytes += expansion * float64(proto.Size(sub))
	}
	if strings.HasPrefix(spec.GetHost(), "*") {
		why := fmt.Sprintf("%.0f subsets × each port below %s", subsets, spec.GetHost())
		return weight{each: size{subsetResources * subsets, bytes}, why: why}
	}
	h := s.of(mesh.FullHost(spec.GetHost(), o.Namespace, s.domain))
	endpoints := h.endpoints * selections(spec.GetSubsets())
	return weight{
		fixed: size{subsetResources * h.ports * subsets, h.ports * (bytes + endpoints*endpointBytes)},
		why:   fmt.Sprintf("%.0f subsets × %.0f ports, with %.0f endpoints in all subsets of a port", subsets, h.ports, endpoints),
	}
}

// selections returns how many subsets may select one endpoint. Subsets with different values of the same labels count once.
func selections(subsets []*networking.Subset) (n float64) {
	if len(subsets) == 0 {
		return 0
	}
	alike := map[string]float64{} // subsets by their labels
	most := map[string]float64{}  // by the names of labels: the most subsets that ask for the same values
	for _, sub := range subsets {
		var names, values strings.Builder
		for _, name := range slices.Sorted(maps.Keys(sub.GetLabels())) {
			fmt.Fprintf(&names, "%q ", name)
			fmt.Fprintf(&values, "%q=%q ", name, sub.GetLabels()[name])
		}
		alike[values.String()]++
		most[names.String()] = max(most[names.String()], alike[values.String()])
	}
	for _, of := range most {
		n += of
	}
	return n
}

// envoyFilter: each patch for each message that it matches.
func (s *surroundings) envoyFilter(spec *networking.EnvoyFilter, ports float64) weight {
	w := weight{why: fmt.Sprintf("%d patches, each for all that it matches", len(spec.GetConfigPatches()))}
	for _, p := range spec.GetConfigPatches() {
		bytes := float64(proto.Size(p.GetPatch().GetValue()))
		n := matched(p, ports)
		if n == 0 {
			w.each = w.each.plus(size{1, bytes})
			continue
		}
		w.fixed = w.fixed.plus(size{1, n * bytes})
	}
	return w
}

// matched estimates how many messages one patch changes; 0: as many as the mesh has ports.
func matched(p *networking.EnvoyFilter_EnvoyConfigObjectPatch, inbound float64) float64 {
	m := p.GetMatch()
	switch p.GetApplyTo() {
	case networking.EnvoyFilter_CLUSTER:
		if c := m.GetCluster(); c.GetName() != "" || c.GetService() != "" {
			return usualPorts
		}
		return 0
	case networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE:
		if r := m.GetRouteConfiguration(); r.GetName() != "" || r.GetVhost().GetName() != "" || r.GetVhost().GetRoute().GetName() != "" {
			return usualPorts
		}
		return 0
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER,
		networking.EnvoyFilter_LISTENER_FILTER:
		if l := m.GetListener(); l.GetName() != "" || l.GetPortNumber() != 0 {
			return usualPorts
		}
		return 0
	case networking.EnvoyFilter_HTTP_FILTER, networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return httpListeners + inbound
	}
	return 1
}

// sidecar: each egress listener lists all hosts that it imports.
func sidecar(spec *networking.Sidecar) weight {
	w := weight{why: fmt.Sprintf("%d egress listeners, each with all hosts that it imports", len(spec.GetEgress()))}
	for _, e := range spec.GetEgress() {
		wild := false
		for _, h := range e.GetHosts() {
			wild = wild || strings.Contains(h, "*")
		}
		w.fixed.resources += listedResources * float64(len(e.GetHosts()))
		if wild {
			w.each.resources++
			w.each.bytes += clusterBytes / 2
		}
	}
	w.fixed.resources += float64(len(spec.GetIngress()))
	return w
}

// gateway: a filter chain, or the domains of one, for each host of each server.
func gateway(spec *networking.Gateway) weight {
	w := weight{why: fmt.Sprintf("%d servers with their hosts", len(spec.GetServers()))}
	for _, srv := range spec.GetServers() {
		n := float64(max(1, len(srv.GetHosts())))
		w.fixed = w.fixed.plus(size{listedResources * n, n * (chainBytes + float64(proto.Size(srv.GetTls())))})
	}
	return w
}

// ofRoute: for each host and listener a virtual host with all routes, or a filter chain.
func (s *surroundings) ofRoute(o *config.Object) weight {
	text, _ := o.SpecJSON() // plain fields always marshal
	hosts, listeners, matches := float64(max(1, len(o.Hostnames()))), 0.0, matchesOf(o)
	for _, ref := range o.Parents() {
		if ref.SectionName == nil && ref.Port == nil {
			listeners += max(1, s.gateways[parentKey(o, ref)])
		} else {
			listeners++
		}
	}
	bytes := expansion*float64(len(text)) + float64(matches)*routeBytes
	return weight{
		fixed: size{hostResources * hosts * listeners, hosts * listeners * bytes},
		why:   fmt.Sprintf("%.0f hosts × %.0f listeners with %d matches", hosts, listeners, matches),
	}
}

// matchesOf counts the matches of a route's rules; a rule without matches has one.
func matchesOf(o *config.Object) (n int) {
	switch spec := o.Native.(type) {
	case *native.HTTPRouteSpec:
		for _, r := range spec.Rules {
			n += max(1, len(r.Matches))
		}
	case *native.GRPCRouteSpec:
		for _, r := range spec.Rules {
			n += max(1, len(r.Matches))
		}
	}
	return max(1, n)
}

// parentKey is the object that a reference of a route names.
func parentKey(o *config.Object, ref gatewayv1.ParentReference) config.Key {
	k := config.Key{Kind: config.KubernetesGateway, Namespace: o.Namespace, Name: string(ref.Name)}
	if ref.Kind != nil && string(*ref.Kind) == string(config.ListenerSet) {
		k.Kind = config.ListenerSet
	}
	if ref.Namespace != nil {
		k.Namespace = string(*ref.Namespace)
	}
	return k
}

func ofIngress(spec *networkingv1.IngressSpec) weight {
	paths := 0.0
	for _, r := range spec.Rules {
		if r.HTTP != nil {
			paths += float64(len(r.HTTP.Paths))
		}
	}
	hosts := float64(len(spec.Rules))
	return weight{fixed: size{hostResources * hosts, paths * 2 * routeBytes}, why: fmt.Sprintf("%.0f rules with %.0f paths", hosts, paths)}
}
