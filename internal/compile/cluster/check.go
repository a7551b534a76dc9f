package cluster

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/route"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// declareChecks notes settings of DestinationRules that do nothing, or do something else than they say. Each object is checked once, not
// once for each layer that sees it. resolve returns the full name of a host that a rule of a namespace writes.
func declareChecks(
	rules *table.Table[config.Key, *config.Object],
	reg *registry.Tables,
	resolve func(name, namespace string) mesh.Host,
) *table.Table[config.Key, struct{}] {
	return table.Derive(rules, "rule checks", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			spec := config.Spec[*networking.DestinationRule](o)
			c := check{r: r, reg: reg, object: o}
			c.service = c.find(resolve(spec.GetHost(), o.Namespace))
			c.policy("spec.trafficPolicy", spec.GetTrafficPolicy())
			for i, s := range spec.GetSubsets() {
				c.policy(fmt.Sprintf("spec.subsets[%d].trafficPolicy", i), s.GetTrafficPolicy())
				c.subset(i, s)
			}
		})
}

// check looks at one rule.
type check struct {
	r       *table.Reader
	reg     *registry.Tables
	object  *config.Object
	service *mesh.Service // of the rule's host; nil: unknown, or the host is a wildcard
}

func (c check) note(s mesh.Severity, code, field, message, fix string) {
	c.r.Note(c.object.Problem(field, code, s, message, fix))
}

// find returns the service that the rule is for: the one in the rule's own namespace, or else the first; nil: there is none.
func (c check) find(host mesh.Host) *mesh.Service {
	if own, ok := table.Get(c.r, c.reg.Merged, registry.HostKey{Host: host, Namespace: c.object.Namespace}); ok {
		return own.Service
	}
	rows, _ := table.Get(c.r, c.reg.ServicesByHost, host)
	if _, m, ok := rows.First(); ok {
		return m.Service
	}
	return nil
}

// subset notes one that no endpoint belongs to.
func (c check) subset(i int, s *networking.Subset) {
	if c.service == nil || c.service.Resolution == mesh.Passthrough || len(s.GetLabels()) == 0 {
		return
	}
	if c.service.Resolution == mesh.DynamicDNS {
		c.note(mesh.Warning, code.Unused, fmt.Sprintf("spec.subsets[%d].labels", i),
			fmt.Sprintf("%s has no endpoints to choose among: subset %s has its policy alone", c.service.Key.Host, s.GetName()),
			"leave them out")
		return
	}
	labels := mesh.MakeLabels(s.GetLabels())
	rows, _ := table.Get(c.r, c.reg.EndpointsByHost, registry.KeyOf(c.service))
	for _, e := range rows.All() {
		if e.Labels.SelectedBy(labels) {
			return
		}
	}
	c.note(mesh.Warning, code.EmptySubset, fmt.Sprintf("spec.subsets[%d].labels", i),
		fmt.Sprintf("no endpoint of %s has the labels %s: requests to subset %s fail", c.service.Key.Host, labels, s.GetName()), "")
}

// policy checks a traffic policy and the policies of its ports.
func (c check) policy(field string, t *networking.TrafficPolicy) {
	if t == nil {
		return
	}
	c.settings(field, 0, t.LoadBalancer, t.Tls)
	if t.Tunnel != nil {
		c.tunnel(field + ".tunnel")
	}
	for i, p := range t.PortLevelSettings {
		at, port := fmt.Sprintf("%s.portLevelSettings[%d]", field, i), p.GetPort().GetNumber()
		if c.service != nil {
			if _, ok := c.service.Port(port); !ok {
				c.note(mesh.Warning, code.UnknownPort, at+".port",
					fmt.Sprintf("%s has no port %d: the settings do nothing", c.service.Key.Host, port), "")
			}
		}
		c.settings(at, port, p.LoadBalancer, p.Tls)
	}
}

// settings looks at what a policy and a port's settings have in common. Port 0 is all.
func (c check) settings(field string, port uint32, lb *networking.LoadBalancerSettings, tls *networking.ClientTLSSettings) {
	if hash := lb.GetConsistentHash(); hash != nil {
		c.hash(field+".loadBalancer.consistentHash", port, hash)
	}
	if tls != nil {
		c.tls(field+".tls", port, tls)
	}
}

// tunnel looks at how connections are put into requests: requests are not, and need no tunnel.
func (c check) tunnel(field string) {
	if c.service != nil && !c.some(0, func(p mesh.Protocol) bool { return !p.IsHTTP() }) {
		c.note(mesh.Warning, code.Unused, field,
			fmt.Sprintf("all ports of %s carry HTTP: tunnels are for tcp and tls routes, the settings do nothing", c.service.Key.Host),
			"declare the proxy's port as TCP")
	}
}

func (c check) hash(field string, port uint32, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if _, err := route.Hash(hash); err != nil {
		c.note(mesh.Error, code.BadHashKey, field, "proxies would refuse the hash key, so requests are balanced at random: "+
			""+err.Error(), "")
	}
	old := hash.GetMinimumRingSize() //nolint:staticcheck // users' rules still have the older field
	if size := max(hash.GetRingHash().GetMinimumRingSize(), old); size > cluster.MaxRingSize {
		c.note(mesh.Warning, code.RingTooLarge, field,
			fmt.Sprintf("a ring of %d is larger than proxies take: it has %d places", size, cluster.MaxRingSize), "")
	}
	if c.service == nil {
		return
	}
	if c.service.Resolution == mesh.Passthrough || c.service.Resolution == mesh.DynamicDNS {
		c.note(mesh.Warning, code.HashWithoutEndpoints, field,
			fmt.Sprintf("connections to %s go where clients send them: nothing is balanced", c.service.Key.Host), "")
	}
	if _, byAddress := hash.GetHashKey().(*networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp); !byAddress &&
		!c.some(port, carriesRequests) {
		c.note(mesh.Warning, code.HashWithoutHTTP, field,
			"the port carries no HTTP that proxies can read: there is nothing to hash, every connection is balanced at random",
			"use useSourceIp")
	}
}

// some reports whether any port that the settings are for is of a kind; port 0 means all ports.
func (c check) some(port uint32, is func(mesh.Protocol) bool) bool {
	for _, p := range c.service.Ports {
		if (port == 0 || p.Number == port) && is(p.Protocol) {
			return true
		}
	}
	return false
}

func carriesRequests(p mesh.Protocol) bool { return p.IsHTTP() || p == mesh.Unknown }

func (c check) tls(field string, port uint32, t *networking.ClientTLSSettings) {
	switch t.GetMode() {
	case networking.ClientTLSSettings_ISTIO_MUTUAL, networking.ClientTLSSettings_DISABLE:
		return
	}
	if t.GetCredentialName() != "" && len(config.Spec[*networking.DestinationRule](c.object).GetWorkloadSelector().GetMatchLabels()) == 0 {
		c.note(
			mesh.Info,
			code.GatewaysOnly,
			field+".credentialName",
			"credentials are delivered to gateways, and to sidecars that a workloadSelector picks: others take "+
				"certificates from the files that the rule names",
			"",
		)
	}
	if c.service != nil && port != 0 && c.some(port, mesh.Protocol.IsTLS) {
		c.note(mesh.Warning, code.TLSInTLS, field,
			fmt.Sprintf("clients speak TLS on port %d already: it would be put inside another TLS connection", port),
			"set mode DISABLE, or declare the port as HTTP")
	}
}
