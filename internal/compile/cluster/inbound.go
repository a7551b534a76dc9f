package cluster

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/inbound"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareInbound builds, for the sidecars of equal workloads, the clusters that lead to the workload.
func declareInbound(in *input.Tables, reg *registry.Tables, sc *scope.Tables, workloads *inbound.Tables) *Published {
	return table.Derive(workloads.Workloads, "inbound clusters", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k inbound.Key, i *inbound.Workload, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			d := defaults(in, r)
			d.StatName = in.InboundStatName(r)
			shelf, last := k.Shelf(), uint32(0)
			if i.Interception != mesh.None {
				emit(resource(shelf, cluster.InboundPassthroughName), envoy.Encode(cluster.InboundPassthrough(sources(i), d)))
			}
			spec := sidecar(r, in, i)
			for _, p := range i.Ports {
				if p.Number == last || p.Protocol == mesh.UDP {
					continue // one cluster for each number: the ports are in order, and the first bind decides its endpoint
				}
				last = p.Number
				limits := pool(spec, p)
				if limits == nil {
					limits = rulePool(r, sc, i.Namespace, p)
				}
				c := clusterOf(i, p, limits, d)
				c.Stands = i.Sidecar.Name + "." + i.Sidecar.Namespace
				if c.Closed = p.Endpoint != "" && ownPort(r, reg, c); c.Closed {
					noteOwnPort(r, in, i, p)
				}
				emit(resource(shelf, c.Key.String()), envoy.Encode(c.Build()))
			}
		})
}

// ownPort reports whether a cluster leads to a port that the proxy or its agent serves on their machine. A cluster without an address keeps
// the original destination, which is on the machine too.
func ownPort(r *table.Reader, reg *registry.Tables, c cluster.Inbound) bool {
	if c.Address == "" {
		return reg.Guarded(r, mesh.IPv4.Loopback(), c.On)
	}
	return reg.Guarded(r, c.Address, c.On)
}

func noteOwnPort(r *table.Reader, in *input.Tables, i *inbound.Workload, p inbound.Port) {
	if o, ok := table.Get(r, in.Sidecars, i.Sidecar); ok && len(config.Spec[*networking.Sidecar](o).GetIngress()) > 0 {
		r.Note(o.Problem(fmt.Sprintf("spec.ingress[%d].defaultEndpoint", p.Ingress), code.ProxysOwn, mesh.Error,
			strconv.Quote(p.Endpoint)+" is a proxy's own, of Envoy or its agent: connections to the listener are closed",
			"give the address of the application"))
	}
}

// sidecar returns the Sidecar if its ingress listeners declare the ports, or nil if services declare them.
func sidecar(r *table.Reader, in *input.Tables, i *inbound.Workload) *networking.Sidecar {
	if o, ok := table.Get(r, in.Sidecars, i.Sidecar); ok {
		return config.Spec[*networking.Sidecar](o)
	}
	return nil
}

// pool returns the limits of connections to the workload: the listener's own settings, or else the Sidecar's
// (IstioIngressListener.connection_pool, Sidecar.inbound_connection_pool).
func pool(spec *networking.Sidecar, p inbound.Port) *networking.ConnectionPoolSettings {
	if ingress := spec.GetIngress(); p.Ingress < len(ingress) && ingress[p.Ingress].GetConnectionPool() != nil {
		return ingress[p.Ingress].GetConnectionPool()
	}
	return spec.GetInboundConnectionPool()
}

// rulePool returns the connection pool settings of the DestinationRule for the port's service, as the workload's namespace sees it. They
// hold for the server too if no Sidecar sets them. nil: there are none.
func rulePool(r *table.Reader, sc *scope.Tables, namespace string, p inbound.Port) *networking.ConnectionPoolSettings {
	if p.Service == "" {
		return nil
	}
	seen := sc.Everywhere(r, mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: namespace}, p.Service)
	if seen == nil {
		return nil
	}
	rule := sc.RuleOf(r, seen)
	if rule == nil {
		return nil
	}
	return cluster.Resolve(rule.Spec, "", p.ServicePort).ConnectionPool
}

// sources returns the source addresses of connections to the workload: under REDIRECT, those that interception lets pass; under TPROXY, the
// client's own.
func sources(i *inbound.Workload) []string {
	switch {
	case i.Interception != mesh.Redirect:
		return nil
	case i.Families == mesh.IPv6:
		return []string{cluster.LoopbackSource6}
	case i.Families == mesh.DualStack:
		return []string{cluster.LoopbackSource, cluster.LoopbackSource6}
	}
	return []string{cluster.LoopbackSource}
}

func clusterOf(i *inbound.Workload, p inbound.Port, pool *networking.ConnectionPoolSettings, d cluster.Defaults) cluster.Inbound {
	c := cluster.Inbound{
		Key:  mesh.ClusterKey{Inbound: true, Port: p.Number},
		Port: mesh.Port{Name: p.Name, Number: cmp.Or(p.ServicePort, p.Number), Target: p.Number, Protocol: p.Protocol},
		Pool: pool, Defaults: d,
	}
	if p.Service != "" {
		c.Services = []*mesh.Service{{Key: mesh.ServiceKey{Host: p.Service, Namespace: i.Namespace}}}
	}
	c.Address, c.On = workload(i, p)
	if c.Address == "" {
		c.Sources = sources(i)
	}
	return c
}

// workload returns the address where the application listens (IstioIngressListener.default_endpoint). Without an address, the connection
// goes to its original destination, on the port unless that is 0.
func workload(i *inbound.Workload, p inbound.Port) (address string, on uint32) {
	if endpoint.IsUnix(p.Endpoint) {
		return p.Endpoint, 0
	}
	host, on := split(p.Endpoint)
	switch {
	case p.Bound && host == "":
		return i.Families.Loopback(), p.Number
	case host == "":
		return "", 0
	case !unspecified(host):
		return host, on
	case !p.Bound && on == p.Number:
		return "", 0
	case !p.Bound:
		return "", on
	case p.Bind != "" && !unspecified(p.Bind):
		return p.Bind, on
	case i.Address != "":
		return i.Address, on
	}
	return i.Families.Loopback(), on
}

func split(endpoint string) (host string, port uint32) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", 0
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0
	}
	return strings.TrimSpace(host), uint32(n)
}

// unspecified reports whether a host is an unspecified address, which means the workload's own.
func unspecified(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsUnspecified()
}
