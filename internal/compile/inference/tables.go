package inference

import (
	"fmt"

	"fairway/internal/compile/inference/pool"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Tables are the tables of this package.
type Tables struct {
	pickers *table.Table[mesh.ClusterKey, struct{}]
	open    *table.Table[mesh.ClusterKey, struct{}] // those that some pool can do without
}

// Declare declares the tables.
func Declare(in *input.Tables, reg *registry.Tables) *Tables {
	table.Derive(in.InferencePools, "inference/checks", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			check(r, in, reg, o)
		})
	pickers := func(name string, wants func(mesh.Picker) bool) *table.Table[mesh.ClusterKey, struct{}] {
		return table.Keys(in.InferencePools, name, mesh.CompareClusterKey, func(_ config.Key, o *config.Object) []mesh.ClusterKey {
			p := pool.Picker(o, in.DomainSuffix())
			if p.Port == 0 || !wants(p) {
				return nil
			}
			return []mesh.ClusterKey{p.Cluster()}
		})
	}
	return &Tables{
		pickers: pickers("inference/pickers", func(mesh.Picker) bool { return true }),
		open:    pickers("inference/open pickers", func(p mesh.Picker) bool { return p.Open }),
	}
}

// IsPicker reports whether a cluster is that of the picker of some pool. open: some pool can do without it (FailOpen).
func (t *Tables) IsPicker(r *table.Reader, cluster mesh.ClusterKey) (is, open bool) {
	if !table.Has(r, t.pickers, cluster) {
		return false, false
	}
	return true, table.Has(r, t.open, cluster)
}

// check notes a picker that cannot be called (EndpointPickerRef).
func check(r *table.Reader, in *input.Tables, reg *registry.Tables, o *config.Object) {
	ref := pool.Spec(o).EndpointPickerRef
	if ref == nil {
		return
	}
	p := pool.Picker(o, in.DomainSuffix())
	then := ": requests to the pool are answered 500"
	if p.Open {
		then = ": requests go to any endpoint of the pool"
	}
	note := func(field, word, message, fix string) {
		r.Note(o.Problem(pool.PickerField+field, word, mesh.Error, message+then, fix))
	}
	if !pool.IsService(ref) {
		note(".kind", code.NotSupported, fmt.Sprintf("%s %q of group %q cannot be an endpoint picker", ref.Kind, ref.Name, ref.Group),
			"name a Service of the pool's namespace")
		return
	}
	declared, _ := table.Get(r, reg.Declared, registry.HostKey{Host: p.Host, Namespace: o.Namespace})
	if declared.Len() == 0 {
		note(".name", code.UnknownHost, fmt.Sprintf("there is no Service %s/%s", o.Namespace, ref.Name),
			"create it, or name one that there is in the pool's namespace")
		return
	}
	found := false
	for _, s := range declared.All() {
		if reg.Alias(r, s) != "" {
			note(".name", code.NotSupported, fmt.Sprintf("Service %s/%s is only another name of a host", o.Namespace, ref.Name),
				"name a Service with endpoints of its own")
			return
		}
		_, has := s.Port(p.Port)
		found = found || has
	}
	if !found {
		note(".port.number", code.UnknownPort, fmt.Sprintf("Service %s/%s has no port %d", o.Namespace, ref.Name, p.Port),
			"write a port of the Service, not of its pods")
	}
}
