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

// selected emits an endpoint for each service of registries in its namespace that a WorkloadEntry serves; if several clusters have the
// service, for the first. It returns these services.
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

// named returns the ports of a workload by the names of a service's ports: the workload's port of that name, else that of the name of the
// port's target.
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
