package rows

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/mesh"
	"fairway/internal/source/kube/translate"
)

// sliceReader reads EndpointSlices. An endpoint may be in several slices of its Service for a while, when it moves from one
// to another, and for good if they have different ports of it: it comes out once, with all ports (disjoint says when it
// does not). So does a Pod that has an address in slices of each family.
type sliceReader struct {
	registry translate.Registry
	of       map[ID]mesh.ServiceKey                     // the service of each slice
	rows     map[mesh.ServiceKey]map[string]*mesh.Slice // as translated; handed on as they are if nothing is twice
	links    map[mesh.ServiceKey]*links                 // of services with many slices
	later    map[mesh.ServiceKey]bool                   // those of a list that is being read; nil: none is
	many     int                                        // services with more slices have links
	shares   int                                        // how many slices of a service an endpoint counts in; many at least
}

// Slices returns a reader of EndpointSlices. It is a Lister.
func Slices(r translate.Registry) Reader { return newSliceReader(r) }

func newSliceReader(r translate.Registry) *sliceReader {
	return &sliceReader{
		registry: r, of: map[ID]mesh.ServiceKey{}, rows: map[mesh.ServiceKey]map[string]*mesh.Slice{},
		links: map[mesh.ServiceKey]*links{}, many: manySlices, shares: MostShares,
	}
}

// Begin implements Lister: slices that are set until Settle are compared once, not each with all that came before it.
func (s *sliceReader) Begin() { s.later = map[mesh.ServiceKey]bool{} }

// Settle implements Lister.
func (s *sliceReader) Settle(to *Made) {
	services := slices.SortedFunc(maps.Keys(s.later), mesh.CompareServiceKey)
	s.later = nil
	for _, service := range services {
		all := slices.SortedFunc(maps.Values(s.rows[service]), compareSlice)
		s.link(service)
		to.Rows.Slices = append(to.Rows.Slices, s.apart(service, all, to)...)
	}
}

func compareSlice(a, b *mesh.Slice) int { return mesh.CompareSliceKey(a.Key, b.Key) }

func (s *sliceReader) Set(o runtime.Object, to *Made) []mesh.Problem {
	from := o.(*discoveryv1.EndpointSlice)
	row, problems := s.registry.Slice(from)
	id := ID{from.Namespace, from.Name}
	if old, had := s.of[id]; had && (row == nil || row.Key.Service != old) {
		s.drop(id, to)
	}
	if row == nil {
		return problems
	}
	service := row.Key.Service
	if s.rows[service] == nil {
		s.rows[service] = map[string]*mesh.Slice{}
	}
	old := s.rows[service][from.Name]
	s.of[id] = service
	s.rows[service][from.Name] = row
	s.hand(service, old, row, to)
	return problems
}

func (s *sliceReader) Remove(o runtime.Object, to *Made) {
	from := o.(*discoveryv1.EndpointSlice)
	s.drop(ID{from.Namespace, from.Name}, to)
}

func (s *sliceReader) Listed() {}

func (s *sliceReader) drop(id ID, to *Made) {
	service, had := s.of[id]
	if !had {
		return
	}
	delete(s.of, id)
	to.Gone.Slices = append(to.Gone.Slices, mesh.SliceKey{Service: service, Name: id.Name})
	to.leftOut(id, 0)
	old := s.rows[service][id.Name]
	if delete(s.rows[service], id.Name); len(s.rows[service]) == 0 {
		delete(s.rows, service)
		delete(s.links, service)
		return
	}
	s.hand(service, old, nil, to)
}

// hand hands on one slice of a service that changed, from old to now (nil: there was none, it has gone), and the slices that had or have
// something in common with it.
func (s *sliceReader) hand(service mesh.ServiceKey, old, now *mesh.Slice, to *Made) {
	if s.later != nil {
		s.later[service] = true
		return
	}
	if now != nil && len(s.rows[service]) == 1 && s.links[service] == nil {
		to.Rows.Slices = append(to.Rows.Slices, now)
		return // as nearly every service has
	}
	s.relink(service, old, now)
	changed := map[string]bool{}
	if now != nil {
		changed[now.Key.Name] = true
	}
	s.related(service, changed, old, now)
	s.addRelated(service, changed, reach-1)
	about := maps.Clone(changed)
	s.addRelated(service, about, reach)
	all := make([]*mesh.Slice, 0, len(about))
	for name := range about {
		all = append(all, s.rows[service][name])
	}
	slices.SortFunc(all, compareSlice)
	out := slices.DeleteFunc(s.apart(service, all, to), func(r *mesh.Slice) bool { return !changed[r.Key.Name] })
	// rows of them that wait to be handed on are older
	to.Rows.Slices = slices.DeleteFunc(to.Rows.Slices, func(r *mesh.Slice) bool { return r.Key.Service == service && changed[r.Key.Name] })
	to.Rows.Slices = append(to.Rows.Slices, out...)
}

// reach is how many steps, from a slice to one that has something in common with it, the content of a slice depends on: an endpoint may be
// another Pod's too, which has a second address in a slice, where a third Pod is.
const reach = 3

// addRelated adds, so many times, the slices that have something in common with those that were added last.
func (s *sliceReader) addRelated(service mesh.ServiceKey, to map[string]bool, times int) {
	last := slices.Collect(maps.Keys(to))
	for ; times > 0 && len(last) > 0; times-- {
		found := map[string]bool{}
		for _, name := range last {
			if row := s.rows[service][name]; row != nil {
				s.related(service, found, row)
			}
		}
		last = last[:0]
		for name := range found {
			if !to[name] {
				to[name], last = true, append(last, name)
			}
		}
	}
}

// related adds the names of the slices of a service that have something in common with rows.
func (s *sliceReader) related(service mesh.ServiceKey, to map[string]bool, rows ...*mesh.Slice) {
	rows = slices.DeleteFunc(rows, func(r *mesh.Slice) bool { return r == nil })
	if of := s.links[service]; of != nil {
		for _, row := range rows {
			of.related(row, to)
		}
		return
	}
	ids, pods := map[string]bool{}, map[mesh.WorkloadKey]bool{{}: false}
	for _, row := range rows {
		for _, e := range row.Endpoints {
			ids[e.ID], pods[e.Workload] = true, e.Workload != (mesh.WorkloadKey{})
		}
	}
	for name, row := range s.rows[service] {
		if !to[name] && slices.ContainsFunc(row.Endpoints, func(e mesh.SliceEndpoint) bool { return ids[e.ID] || pods[e.Workload] }) {
			to[name] = true
		}
	}
}

// apart returns slices of a service such that no two have an endpoint in common.
func (s *sliceReader) apart(service mesh.ServiceKey, all []*mesh.Slice, to *Made) []*mesh.Slice {
	if of := s.links[service]; of != nil {
		for i, row := range all {
			counted, left := of.counted(row)
			all[i] = counted
			to.leftOut(ID{service.Namespace, row.Key.Name}, left)
		}
	}
	if len(all) < 2 {
		return all
	}
	return disjoint(all)
}

// disjoint returns slices such that no two have a port of an endpoint in common. The slice where the endpoint is healthiest keeps the
// port; of several such slices, the first by name. Slices that name the same workload at the same address have one endpoint together.
// There are several endpoints if the slices give a port several numbers, or if several workloads have the address, as on a machine's
// own network. A slice that loses nothing is returned as it is.
func disjoint(all []*mesh.Slice) (out []*mesh.Slice) {
	shared := false
	pods := families(all)
	found := map[string][]share{}
	for i, s := range all {
		for _, e := range s.Endpoints {
			e = pods.one(e)
			shared = shared || len(found[e.ID]) > 0
			found[e.ID] = append(found[e.ID], share{e, i})
		}
	}
	if !shared {
		return all
	}
	for id, parts := range found {
		if len(parts) > 1 {
			found[id] = merged(parts)
		}
	}
	for i, s := range all {
		own := &mesh.Slice{Key: s.Key}
		for _, e := range s.Endpoints {
			id := pods.one(e).ID
			for _, p := range found[id] {
				if p.slice == i {
					own.Endpoints = append(own.Endpoints, p.SliceEndpoint)
				}
			}
			found[id] = slices.DeleteFunc(found[id], func(p share) bool { return p.slice == i })
		}
		if own.Equal(s) {
			own = s
		}
		out = append(out, own)
	}
	return out
}

// share is what one slice says of an endpoint.
type share struct {
	mesh.SliceEndpoint
	slice int // its index
}

// merged makes endpoints of what slices say of one address, in their order.
func merged(parts []share) []share {
	slices.SortStableFunc(parts, func(a, b share) int { return cmp.Compare(a.Health, b.Health) })
	var out []share
	for _, p := range parts {
		pairs := slices.DeleteFunc(p.Ports.Pairs(), func(pair string) bool {
			return slices.ContainsFunc(out, func(o share) bool { return slices.Contains(o.Ports.Pairs(), pair) })
		})
		if len(pairs) == 0 && len(out) > 0 {
			continue
		}
		for i := range out {
			if out[i].Workload == p.Workload {
				pairs = out[i].add(pairs)
			}
		}
		if len(pairs) == 0 && len(out) > 0 {
			continue
		}
		if len(out) > 0 {
			p.ID += "#" + strconv.Itoa(len(out)+1)
			p.Ports, p.ListsAll = portMap(pairs), true
		}
		out = append(out, p)
	}
	return out
}

// add adds ports with names that the endpoint does not have, and returns the others.
func (p *share) add(pairs []string) (others []string) {
	all := p.Ports.Pairs()
	for _, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if _, has := p.Ports.Get(name); has {
			others = append(others, pair)
		} else {
			all = append(all, pair)
		}
	}
	if len(others) < len(pairs) {
		p.Ports = portMap(all)
	}
	return others
}

func portMap(pairs []string) mesh.PortMap {
	slices.Sort(pairs)
	return mesh.PortMap(strings.Join(pairs, ","))
}
