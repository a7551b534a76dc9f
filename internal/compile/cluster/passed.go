package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy/cluster"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file builds the clusters of connections that an east-west gateway passes on unchanged. They are for clients of other networks, which
// name the cluster as the server of their TLS.

// Passed is the key of a table that says which services' clusters gateways hand connections on to.
type Passed interface {
	comparable
	~struct {
		Layer mesh.Layer
		Host  registry.HostKey
	}
}

// declarePassedTargets finds the targets of those clusters: every port and subset that the gateway sees. Connections to services outside of
// the mesh do not pass it.
func declarePassedTargets[P Passed](reg *registry.Tables, sc *scope.Tables, passed *table.Table[P, struct{}]) *table.Table[Key, *Target] {
	return table.Derive(passed, "passed targets", CompareKey, sameTarget,
		func(r *table.Reader, p P, _ struct{}, emit func(Key, *Target)) {
			k := struct {
				Layer mesh.Layer
				Host  registry.HostKey
			}(p)
			seen := sc.View(r, k.Layer, k.Host.Host)
			if seen == nil || seen.Service == nil || seen.Service.External || registry.KeyOf(seen.Service) != k.Host {
				return
			}
			v := view{service: seen.Service, rule: sc.RuleOf(r, seen), gateway: true, local: reg.KeepsLocal(r, k.Layer, seen.Service)}
			v.each(func(key mesh.ClusterKey, t *Target) {
				key.BySNI = true
				if t.Policy.TLS == nil || t.Policy.TLS.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL {
					emit(Key{k.Layer, key}, t)
				}
			})
		})
}

// asItIs returns a copy of the target that passes connections, or datagrams, on as they are, without TLS and PROXY protocol.
func (t *Target) asItIs() *Target {
	c := *t
	c.Plain = true
	c.Port.Protocol = mesh.TCP
	c.Policy.TLS, c.Policy.ProxyProtocol = nil, nil
	return &c
}

func asItIs(d cluster.Defaults) cluster.Defaults {
	d.Mutual, d.AutoMutual = false, false
	return d
}
