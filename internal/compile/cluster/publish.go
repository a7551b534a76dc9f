package cluster

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

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
func declareClusters(name string, targets *table.Table[Key, *Target], defaults *table.Table[mesh.Layer, *cluster.Defaults], reg *registry.Tables) *Published {
	return table.Derive(targets, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k Key, t *Target, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			d, ok := table.Get(r, defaults, k.Layer)
			if !ok {
				return
			}
			enc := encode(t.outbound(r, k, *d, reg).Build())
			if t.Discovery == cluster.Delivered && enc.Err == nil {
				enc.Load = k.Cluster.String()
			}
			if enc.Err != nil && !known(enc.Err) {
				r.Note(t.refused(k.Cluster, enc.Err))
			}
			emit(resource(scope.ClusterShelf(k.Layer), k.Cluster.String()), enc)
		})
}

// outbound is the target as the builder takes it.
func (t *Target) outbound(r *table.Reader, k Key, d cluster.Defaults, reg *registry.Tables) cluster.Outbound {
	o := cluster.Outbound{
		Key: k.Cluster, Service: t.Service, Port: t.Port, Policy: t.Policy, Rule: t.Rule,
		Gateway: k.Layer.Kind == mesh.GatewayLayer, Discovery: t.Discovery, Defaults: d,
	}
	if t.Discovery.Inline() {
		s := selection{k.Cluster, t.Service.Key, t.Port, t.Labels}
		load := endpoint.Load{Cluster: k.Cluster.String(), Port: t.Port, Form: endpoint.Named}
		for _, e := range reg.EndpointsOf(r, t.Service, t.Port) {
			if e.Labels.SelectedBy(s.Labels) {
				load.Endpoints = append(load.Endpoints, e)
			}
		}
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
	if t.Rule.Name == "" {
		p.Object, p.Field = t.Service.Origin, ""
	}
	return p
}
