package cluster

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"fairway/internal/compile/peer"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/envoy"
	"fairway/internal/envoy/cluster"
	"fairway/internal/envoy/endpoint"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Published is a table of resources, ready to send.
type Published = table.Table[mesh.ResourceKey, *envoy.Encoded]

func resource(shelf mesh.Shelf, name string) mesh.ResourceKey {
	return mesh.ResourceKey{Shelf: shelf, Name: name}
}

// declareLoads gives every layer the load assignments that its targets select.
func declareLoads(name string, targets *table.Table[Key, *Target], assignments *table.Table[selection, *envoy.Encoded]) *Published {
	return table.Derive(targets, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k Key, t *Target, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			s, ok := t.selects(k.Cluster)
			if !ok {
				return
			}
			if load, ok := table.Get(r, assignments, s); ok {
				emit(resource(scope.LoadShelf(k.Layer), s.Cluster.String()), load)
			}
		})
}

// declareClusters gives every layer the clusters of its targets.
func declareClusters(name string, targets *table.Table[Key, *Target], defaults *defaultsTable, b builder) *Published {
	return table.Derive(targets, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k Key, t *Target, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for v, d := range variants(r, defaults, k.Layer) {
				enc := encode(b.outbound(r, k, t, *d).Build())
				if t.Discovery == cluster.Delivered && enc.Err == nil {
					enc.Load = k.Cluster.String()
				}
				if enc.Err != nil && !known(enc.Err) {
					r.Note(t.refused(k.Cluster, enc.Err))
				}
				emit(resource(scope.ClusterShelf(v), k.Cluster.String()), enc)
			}
		})
}

// builder has what clusters and load assignments are made from besides their targets.
type builder struct {
	reg   *registry.Tables
	peers *peer.Tables
}

// outbound is a target as envoy/cluster takes it.
func (b builder) outbound(r *table.Reader, k Key, t *Target, d cluster.Defaults) cluster.Outbound {
	o := cluster.Outbound{
		Key: k.Cluster, Service: t.Service, Port: t.Port, Policy: t.Policy, Rule: t.Rule,
		Gateway: k.Layer.Kind == mesh.GatewayLayer, Discovery: t.Discovery, Defaults: d,
	}
	if d.Mutual && !t.Service.External {
		o.Identities = b.reg.Identities(r, t.Service)
	}
	if t.Discovery.Inline() {
		s := selection{k.Cluster, t.Service.Key, t.Port, t.Labels}
		load := endpoint.Load{Cluster: k.Cluster.String(), Port: t.Port, Form: endpoint.Named}
		b.each(r, s, func(e mesh.Endpoint) { load.Endpoints = append(load.Endpoints, e) })
		o.Load = load.Build()
	}
	return o
}

func encode(c *clusterv3.Cluster, err error) *envoy.Encoded {
	if err != nil {
		return &envoy.Encoded{Err: err}
	}
	return envoy.Encode(c)
}

// known says whether an error is one that check.go notes, once for all layers.
func known(err error) bool {
	return errors.Is(err, cluster.ErrCredential)
}

// refused is the problem of a cluster that Envoy's own rules do not let pass; it lies in the rule where there is one.
func (t *Target) refused(key mesh.ClusterKey, err error) mesh.Problem {
	p := mesh.Problem{Object: t.Rule, Field: "spec.trafficPolicy", Code: "Refused", Severity: mesh.Error,
		Message: fmt.Sprintf("proxies would refuse cluster %s, they keep what they have: %v", key, err)}
	if key.Subset != "" {
		p.Field = "spec.subsets"
	}
	if errors.Is(err, cluster.ErrNoIdentity) {
		p.Code, p.Severity = "NoIdentity", mesh.Warning
		p.Message = fmt.Sprintf("a proxy that has no identity is connected: it gets no cluster %s, which asks for mutual TLS", key)
		p.Fix = "let its agent get certificates (pilot-agent's CA_ADDR and token)"
	}
	if t.Rule.Name == "" {
		p.Object, p.Field = t.Service.Origin, ""
	}
	return p
}
