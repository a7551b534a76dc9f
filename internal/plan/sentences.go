package plan

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"fairway/internal/envoy"
	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// statement is a sentence before it is known for how many proxies it holds.
type statement struct {
	danger bool
	text   string
}

// seen returns the resource that a proxy sees under a name after the change; nil: none.
type seen func(id mesh.ProxyID, typ xdstype.Type, name string) *envoy.Encoded

// sentences are all statements, with the proxies that each is about.
type sentences struct {
	seen   seen
	crowds []crowd                        // all of them
	about  map[statement]map[int]struct{} // the crowds that each is about, by their place in crowds
}

// crowd are proxies of one kind for which a change does the same, in order.
type crowd []mesh.ProxyID

// newSentences returns no sentences yet.
func newSentences(s seen, crowds []crowd) *sentences {
	return &sentences{seen: s, crowds: crowds, about: map[statement]map[int]struct{}{}}
}

// MostSentences is how many sentences a plan has of each sort.
const MostSentences = 200

// add adds a sentence about some crowds.
func (s *sentences) add(danger bool, about []int, format string, args ...any) {
	k := statement{danger, fmt.Sprintf(format, args...)}
	if s.about[k] == nil {
		s.about[k] = map[int]struct{}{}
	}
	for _, c := range about {
		s.about[k][c] = struct{}{}
	}
}

// size is how many proxies are in some crowds, and some are the first of them.
func (s *sentences) size(about iter.Seq[int]) (n int, some []string) {
	for c := range about {
		n += len(s.crowds[c])
		for _, id := range s.crowds[c][:min(someProxies, len(s.crowds[c]))] {
			some = append(some, string(id))
		}
	}
	slices.Sort(some)
	return n, some[:min(someProxies, len(some))]
}

// list returns the dangers, or the other sentences: those about the most proxies first.
func (s *sentences) list(danger bool) []Sentence {
	out := []Sentence{}
	for k, about := range s.about {
		if k.danger == danger {
			n, some := s.size(maps.Keys(about))
			out = append(out, Sentence{Text: k.text, Proxies: n, Some: some})
		}
	}
	slices.SortFunc(out, func(a, b Sentence) int {
		return cmp.Or(-cmp.Compare(a.Proxies, b.Proxies), strings.Compare(a.Text, b.Text))
	})
	if more := len(out) - MostSentences; more > 0 {
		out = append(out[:MostSentences], Sentence{Text: fmt.Sprintf("and %d more", more)})
	}
	return out
}

// describe adds what there is to say about a difference.
func (s *sentences) describe(g *group) {
	old, now := message(g.Type, g.Old), message(g.Type, g.New)
	switch g.Type {
	case xdstype.Loads:
		o, _ := old.(*endpointv3.ClusterLoadAssignment)
		n, _ := now.(*endpointv3.ClusterLoadAssignment)
		s.endpoints(g, o, n)
	case xdstype.Clusters:
		o, _ := old.(*clusterv3.Cluster)
		n, _ := now.(*clusterv3.Cluster)
		s.cluster(g, o, n)
	case xdstype.VirtualHosts:
		o, _ := old.(*routev3.VirtualHost)
		n, _ := now.(*routev3.VirtualHost)
		s.virtualHost(g, o, n)
	case xdstype.Routes:
		o, _ := old.(*routev3.RouteConfiguration)
		n, _ := now.(*routev3.RouteConfiguration)
		s.virtualHosts(g, o.GetVirtualHosts(), n.GetVirtualHosts())
	case xdstype.Listeners:
		o, _ := old.(*listenerv3.Listener)
		n, _ := now.(*listenerv3.Listener)
		s.listener(g, o, n)
	}
}

// endpoints says that a cluster loses its last endpoint, or gets its first.
func (s *sentences) endpoints(g *group, old, now *endpointv3.ClusterLoadAssignment) {
	before, after := usable(old), usable(now)
	name := clusterName(g.Name)
	switch {
	case before > 0 && after == 0 && now != nil:
		s.add(true, g.crowds, "%s loses its last endpoint: requests to it will be answered 503", name)
	case before == 0 && after == 0 && old == nil:
		s.add(true, g.crowds, "%s has no endpoint: requests to it will be answered 503", name)
	case before == 0 && after > 0 && old != nil:
		s.add(false, g.crowds, "%s gets its first endpoints (%d)", name, after)
	case before != after && now != nil && old != nil:
		s.add(false, g.crowds, "the endpoints of %s become %d, from %d", name, after, before)
	}
}

// unserved says why a cluster cannot serve a proxy's requests after the change; "": it can.
func (s *sentences) unserved(id mesh.ProxyID, cluster string) string {
	m, _ := message(xdstype.Clusters, s.seen(id, xdstype.Clusters, cluster)).(*clusterv3.Cluster)
	if m == nil {
		return "which does not exist: they will be answered 503"
	}
	load := m.GetLoadAssignment()
	switch m.GetType() {
	case clusterv3.Cluster_EDS:
		name := cmp.Or(m.GetEdsClusterConfig().GetServiceName(), cluster)
		load, _ = message(xdstype.Loads, s.seen(id, xdstype.Loads, name)).(*endpointv3.ClusterLoadAssignment)
	case clusterv3.Cluster_STATIC, clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		if m.GetClusterType() != nil {
			return "" // its extension finds endpoints
		}
	default:
		return ""
	}
	if usable(load) > 0 {
		return ""
	}
	return "which has no endpoint: they will be answered 503"
}

// usable counts the endpoints that may get requests.
func usable(a *endpointv3.ClusterLoadAssignment) (n int) {
	for _, l := range a.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			switch e.GetHealthStatus() {
			case corev3.HealthStatus_UNHEALTHY, corev3.HealthStatus_DRAINING, corev3.HealthStatus_TIMEOUT:
			default:
				n++
			}
		}
	}
	return n
}

// cluster says which clusters come and go, and that one with endpoints of its own has none left.
func (s *sentences) cluster(g *group, old, now *clusterv3.Cluster) {
	name := clusterName(g.Name)
	switch {
	case now == nil:
		s.add(false, g.crowds, "%s goes", name)
	case old == nil:
		s.add(false, g.crowds, "%s comes", name)
	}
	if now.GetLoadAssignment() != nil && usable(now.GetLoadAssignment()) == 0 &&
		(old == nil || usable(old.GetLoadAssignment()) > 0) {
		s.add(true, g.crowds, "%s has no endpoint: requests to it will be answered 503", name)
	}
}

// clusterName is a cluster as users know it: host, port and subset.
func clusterName(name string) string {
	direction, port, subset, host, ok := mesh.ClusterParts(name)
	if !ok {
		return name
	}
	out := host
	if port != "" {
		out = net.JoinHostPort(host, port)
	}
	if subset != "" {
		out += " subset " + subset
	}
	if direction == "inbound" {
		out = "the workload's own port " + port
	}
	return out
}

// listener says that a gateway loses or gains a port, and what policies do.
func (s *sentences) listener(g *group, old, now *listenerv3.Listener) {
	gateways := slices.DeleteFunc(slices.Clone(g.crowds), func(c int) bool { return !s.crowds[c][0].IsRouter() })
	if len(gateways) > 0 && (old == nil) != (now == nil) {
		at := address(cmp.Or(old, now))
		if now == nil {
			s.add(true, gateways, "the gateway no longer listens on %s", at)
		} else {
			s.add(false, gateways, "the gateway listens on %s", at)
		}
	}
	if old != nil && now != nil {
		for _, port := range refusesPlaintext(old, now) {
			s.add(true, g.crowds, "plaintext is no longer accepted on %s", port)
		}
	}
	before, after := authorizationOf(old), authorizationOf(now)
	if old != nil && now != nil { // a listener that comes or goes is said already
		s.policies(g, before, after)
	}
	s.virtualHosts(g, before.inlineHosts(), after.inlineHosts())
}

func address(l *listenerv3.Listener) string {
	a := l.GetAddress().GetSocketAddress()
	out := net.JoinHostPort(a.GetAddress(), strconv.FormatUint(uint64(a.GetPortValue()), 10))
	if a.GetProtocol() == corev3.SocketAddress_UDP {
		out += " (UDP)"
	}
	return out
}

// refusesPlaintext lists the ports on which a listener accepted plaintext and accepts it no longer.
func refusesPlaintext(old, now *listenerv3.Listener) (out []string) {
	before, after := plaintext(old), plaintext(now)
	for _, port := range slices.Sorted(maps.Keys(before)) {
		if accepts, is := after[port]; is && before[port] && !accepts {
			out = append(out, port)
		}
	}
	return out
}

// plaintext reports for each port that filter chains are about, and for all others, whether one of the chains takes plaintext.
func plaintext(l *listenerv3.Listener) map[string]bool {
	out := map[string]bool{}
	for _, c := range l.GetFilterChains() {
		m := c.GetFilterChainMatch()
		port := "other ports"
		if m.GetDestinationPort() != nil {
			port = fmt.Sprintf("port %d", m.GetDestinationPort().GetValue())
		}
		out[port] = out[port] || c.GetTransportSocket() == nil && m.GetTransportProtocol() != "tls"
	}
	return out
}
