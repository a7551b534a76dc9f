package sidecar

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/table"
)

// Outbound is what becomes of traffic to hosts that a layer does not see.
type Outbound uint8

// The policies.
const (
	AsMesh       Outbound = iota // as MeshConfig.outboundTrafficPolicy says
	AllowAny                     // it passes through (PassthroughCluster)
	RegistryOnly                 // it is refused (BlackHoleCluster)
	ByName                       // requests go to the names that they are for, the rest passes through; no Sidecar says so
)

func (o Outbound) String() string {
	return [...]string{"", "ALLOW_ANY", "REGISTRY_ONLY", "ALLOW_ANY_DYNAMIC_DNS"}[o]
}

// everything imports each host of each namespace.
const everything = "*/*"

// Opening is what of a Sidecar decides whether its proxies need a layer of their own. It is comparable.
type Opening struct {
	Open   bool     // they see what their namespace sees
	Policy Outbound // of its own; AsMesh: it says nothing of it
	Proxy  Proxy    // where that sends what is unknown; zero: where its client did
}

// Proxy is where a Sidecar sends traffic to unknown hosts (OutboundTrafficPolicy.egress_proxy), as it is written. It is comparable.
type Proxy struct {
	Host, Subset string
	Port         uint32
}

// declareOpenings tells Sidecars that import everything, on no listener of their own, from those that narrow what their proxies see.
// With an egress proxy they have a layer of their own too: every listener and route of it leads to the proxy what nothing else takes.
func (t *Tables) declareOpenings() {
	t.openings = table.Derive(t.in.Sidecars, "sidecar/openings", config.CompareKey, table.Same[Opening],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, Opening)) {
			list := t.Egress(r, k)
			proxy := proxyOf(o)
			emit(k, Opening{Open: len(list) == 1 && list[0].all() && proxy == Proxy{}, Policy: policyOf(o), Proxy: proxy})
		})
}

// all says whether a listener imports everything, under the ports and addresses that services have.
func (e Egress) all() bool {
	hosts := strings.Split(e.Hosts, ",")
	return e.Listener == Listener{} && slices.Contains(hosts, everything) &&
		!slices.ContainsFunc(hosts, func(h string) bool { return strings.HasPrefix(h, "~") })
}

// Opening is a Sidecar's; the zero Opening where there is no such Sidecar.
func (t *Tables) Opening(r *table.Reader, sidecar config.Key) Opening {
	o, _ := table.Get(r, t.openings, sidecar)
	return o
}

// proxyOf is the egress proxy of a Sidecar whose policy lets what is unknown out.
func proxyOf(o *config.Object) Proxy {
	p := config.Spec[*networking.Sidecar](o).GetOutboundTrafficPolicy().GetEgressProxy()
	if p == nil || policyOf(o) != AllowAny {
		return Proxy{}
	}
	return Proxy{p.GetHost(), p.GetSubset(), p.GetPort().GetNumber()}
}

// policyOf is the policy that a Sidecar gives itself; AsMesh: it says nothing of it.
func policyOf(o *config.Object) Outbound {
	policy := config.Spec[*networking.Sidecar](o).GetOutboundTrafficPolicy()
	switch {
	case policy == nil:
		return AsMesh
	case policy.GetMode() == networking.OutboundTrafficPolicy_REGISTRY_ONLY:
		return RegistryOnly
	}
	return AllowAny
}
