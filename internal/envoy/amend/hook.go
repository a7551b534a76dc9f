package amend

import (
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"
)

// Hook is one property that a patch matches on. Patches are indexed by it: if a thousand patches match one service each, a cluster only
// looks at the patches of its own services. A patch that matches on nothing has the empty Hook.
type Hook struct{ Kind, Name string }

// The kinds of hooks. To find services, addresses and domains, the message may have to be decoded; the others are in its name.
const (
	byName    = "name"
	byService = "service"
	byPort    = "port"
	byAddress = "address" // a listener's port
	byHost    = "host"
	byDomain  = "domain"
)

// Inside reports whether a resource has to be decoded before it is known whether it has the hook.
func (h Hook) Inside() bool { return h.Kind == byService || h.Kind == byDomain || h.Kind == byAddress }

// ClusterHook returns what a cluster must have for the patch to match it; false: the patch changes no cluster.
func (p *Patch) ClusterHook() (Hook, bool) {
	m := p.match.GetCluster()
	return firstHook(Hook{byName, m.GetName()}, Hook{byService, m.GetService()}, portHook(byPort, m.GetPortNumber())),
		p.to == networking.EnvoyFilter_CLUSTER && p.op != opAdd
}

// ListenerHook is ClusterHook for listeners.
func (p *Patch) ListenerHook() (Hook, bool) {
	m := p.match.GetListener()
	return firstHook(Hook{byName, m.GetName()}, portHook(byAddress, m.GetPortNumber())), p.MayChangeListener(p.match.GetContext())
}

// RoutesHook is ClusterHook for route configurations.
func (p *Patch) RoutesHook() (Hook, bool) { return p.routesHook(), p.ofRoutes() }

// HostHook is ClusterHook for virtual hosts that are sent by themselves.
func (p *Patch) HostHook() (Hook, bool) {
	m := p.match.GetRouteConfiguration().GetVhost()
	return firstHook(Hook{byHost, m.GetName()}, Hook{byDomain, m.GetDomainName()}, p.routesHook()),
		p.to == networking.EnvoyFilter_HTTP_ROUTE || p.to == networking.EnvoyFilter_VIRTUAL_HOST && p.op != opAdd
}

func (p *Patch) routesHook() Hook {
	m := p.match.GetRouteConfiguration()
	return firstHook(Hook{byName, m.GetName()}, portHook(byPort, m.GetPortNumber()))
}

func portHook(kind string, n uint32) Hook {
	if n == 0 {
		return Hook{}
	}
	return Hook{kind, strconv.Itoa(int(n))}
}

func firstHook(all ...Hook) Hook {
	for _, h := range all {
		if h.Name != "" {
			return h
		}
	}
	return Hook{}
}

// ClusterHooks lists the hooks of a cluster's name.
func ClusterHooks(name string) []Hook {
	out := []Hook{{}, {byName, name}}
	if part := strings.Split(name, "|"); len(part) == 4 {
		out = append(out, Hook{byPort, part[1]})
		if part[0] != "inbound" {
			out = append(out, Hook{byService, part[3]})
		}
	}
	return out
}

// ServiceHooks lists the hooks that are inside a cluster: the services of an inbound one.
func ServiceHooks(c *clusterv3.Cluster) (out []Hook) {
	if ClusterContext(c.GetName()) != Inbound {
		return nil
	}
	for _, host := range servedBy(c) {
		out = append(out, Hook{byService, host})
	}
	return out
}

// ListenerHooks lists the hooks of a listener's name.
func ListenerHooks(name string) []Hook { return []Hook{{}, {byName, name}} }

// PortHooks lists the hooks that are inside a listener; all: the listener has all ports.
func PortHooks(l *listenerv3.Listener) (out []Hook, all bool) {
	return []Hook{portHook(byAddress, l.GetAddress().GetSocketAddress().GetPortValue())}, l.GetName() == virtualInbound
}

// OfAddress reports whether the hook is the port of a listener.
func (h Hook) OfAddress() bool { return h.Kind == byAddress }

// RoutesHooks lists the hooks of a route configuration's name.
func RoutesHooks(name string) []Hook {
	port, _, _ := partsOf(name)
	return []Hook{{}, {byName, name}, {byPort, port}}
}

// HostHooks lists the hooks of the name of a virtual host; routes is the name of its route configuration.
func HostHooks(routes, name string) []Hook {
	return append(RoutesHooks(routes), Hook{byHost, strings.TrimPrefix(name, routes+"/")})
}

// DomainHooks lists the hooks that are inside a virtual host: its domains.
func DomainHooks(h *routev3.VirtualHost) (out []Hook) {
	for _, d := range h.GetDomains() {
		out = append(out, Hook{byDomain, d})
	}
	return out
}
