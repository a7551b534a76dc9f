package sidecar

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/config"
	"fairway/internal/table"
)

// Outbound is the policy for traffic to hosts that a layer does not see.
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

// Opening is the part of a Sidecar that decides whether its proxies need a layer of their own. It is comparable.
type Opening struct {
	Open   bool     // they see what their namespace sees
	Policy Outbound // of its own; AsMesh: it has none
	Proxy  Proxy    // for unknown traffic; zero: traffic goes where its client sent it
}

// Proxy is the egress proxy of a Sidecar for traffic to unknown hosts (OutboundTrafficPolicy.egress_proxy), as written. It is comparable.
type Proxy struct {
	Host, Subset string
	Port         uint32
}

// declareOpenings finds Sidecars that import everything, on no listener of their own, and those that narrow the view of their proxies. A
// Sidecar with an egress proxy has a layer of its own too, because all its listeners and routes send unknown traffic there.
func (t *Tables) declareOpenings() {
	t.openings = table.Derive(t.in.Sidecars, "sidecar/openings", config.CompareKey, table.Same[Opening],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, Opening)) {
			list := t.Egress(r, k)
			proxy := proxyOf(o)
			emit(k, Opening{Open: len(list) == 1 && list[0].all() && proxy == Proxy{}, Policy: policyOf(o), Proxy: proxy})
		})
}

// all reports whether a listener imports everything, under the ports and addresses that services have.
func (e Egress) all() bool {
	hosts := strings.Split(e.Hosts, ",")
	return e.Listener == Listener{} && slices.Contains(hosts, everything) &&
		!slices.ContainsFunc(hosts, func(h string) bool { return strings.HasPrefix(h, "~") })
}

// Opening returns a Sidecar's; the zero Opening if there is no such Sidecar.
func (t *Tables) Opening(r *table.Reader, sidecar config.Key) Opening {
	o, _ := table.Get(r, t.openings, sidecar)
	return o
}

// proxyOf returns the egress proxy of a Sidecar that lets unknown traffic out.
func proxyOf(o *config.Object) Proxy {
	p := config.Spec[*networking.Sidecar](o).GetOutboundTrafficPolicy().GetEgressProxy()
	if p == nil || policyOf(o) != AllowAny {
		return Proxy{}
	}
	return Proxy{p.GetHost(), p.GetSubset(), p.GetPort().GetNumber()}
}

// policyOf returns the policy of a Sidecar; AsMesh: it has none.
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
