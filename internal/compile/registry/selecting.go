package registry

import (
	"cmp"
	"slices"
	"strings"

	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// selecting is a label ("key=value") that services of registries use to select workloads of a namespace.
type selecting struct{ namespace, pair string }

// declareSelecting finds registries' services by the workloads that they select. It finds WorkloadEntries only; registries add their own
// workloads to their services.
func (t *Tables) declareSelecting() {
	compare := func(a, b selecting) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pair, b.pair))
	}
	t.bySelector = table.Group(t.Services, "services/selector", compare, func(_ mesh.ServiceKey, s *mesh.Service) []selecting {
		if s.Selects == "" || s.External {
			return nil
		}
		return []selecting{{s.Key.Namespace, selects.First(s.Selects)}}
	})
}

// selected emits what a WorkloadEntry serves of registries' services of its namespace: of one that several clusters have, the
// first. It returns that.
func (t *Tables) selected(
	r *table.Reader, o *config.Object, e mesh.Endpoint, emit func(mesh.EndpointKey, mesh.Endpoint),
) (serves []mesh.ServiceKey) {
	if e.Address == "" && e.Network == "" {
		return nil
	}
	var all []*mesh.Service
	for _, pair := range e.Labels.Pairs() {
		rows, _ := table.Get(r, t.bySelector, selecting{o.Namespace, pair})
		for _, s := range rows.All() {
			if e.Labels.SelectedBy(s.Selects) {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b *mesh.Service) int { return mesh.CompareServiceKey(a.Key, b.Key) })
	all = slices.CompactFunc(all, func(a, b *mesh.Service) bool { return a.Key.Host == b.Key.Host })
	for _, s := range all {
		served := e
		served.Ports = named(e.Ports, s.TargetNames)
		emit(mesh.EndpointKey{Service: s.Key, ID: "WorkloadEntry/" + o.Name}, served)
		serves = append(serves, s.Key)
	}
	return serves
}

// named are the ports of a workload by the names of a service's ports: what the workload has under that name, else what it
// has under the name of the port's target.
func named(ports mesh.PortMap, targets mesh.Labels) mesh.PortMap {
	all := ports.Map()
	for _, pair := range targets.Pairs() {
		name, target, _ := strings.Cut(pair, "=")
		if _, has := ports.Get(name); has {
			continue
		}
		if number, has := ports.Get(target); has {
			all[name] = number
		}
	}
	return mesh.MakeLabels(all)
}
