package kube

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

// sliceReader reads EndpointSlices. An endpoint may stand in several slices of its Service for a while, when it moves
// from one to another, and for good where they have different ports of it: it comes out once, with all ports (disjoint says
// when it does not). So does a Pod that has an address in slices of each family.
type sliceReader struct {
	registry translate.Registry
	of       map[object]mesh.ServiceKey                 // whose each slice is
	rows     map[mesh.ServiceKey]map[string]*mesh.Slice // as translated; what is handed on is the same where nothing is twice
	shared   map[mesh.ServiceKey]bool                   // services of which something is twice
	later    map[mesh.ServiceKey]bool                   // those of a list that is being read; nil: none is
}

// object names an object of one kind.
type object struct{ namespace, name string }

func (o object) String() string { return o.namespace + "/" + o.name }

func newSliceReader(r translate.Registry) *sliceReader {
	return &sliceReader{
		registry: r, of: map[object]mesh.ServiceKey{}, rows: map[mesh.ServiceKey]map[string]*mesh.Slice{},
		shared: map[mesh.ServiceKey]bool{},
	}
}

// begin implements lister: slices that are set until settle are compared once, not each with all that came before it.
func (s *sliceReader) begin() { s.later = map[mesh.ServiceKey]bool{} }

// settle implements lister.
func (s *sliceReader) settle(to *made) {
	services := slices.SortedFunc(maps.Keys(s.later), mesh.CompareServiceKey)
	s.later = nil
	for _, service := range services {
		all := slices.SortedFunc(maps.Values(s.rows[service]), compareSlice)
		if len(all) > 1 {
			apart, shared := disjoint(all)
			if all = apart; shared {
				s.shared[service] = true
			}
		}
		to.rows.Slices = append(to.rows.Slices, all...)
	}
}

func compareSlice(a, b *mesh.Slice) int { return mesh.CompareSliceKey(a.Key, b.Key) }

func (s *sliceReader) set(o runtime.Object, to *made) []mesh.Problem {
	from := o.(*discoveryv1.EndpointSlice)
	row, problems := s.registry.Slice(from)
	id := object{from.Namespace, from.Name}
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
	s.of[id] = service
	s.rows[service][from.Name] = row
	s.hand(service, row, to)
	return problems
}

func (s *sliceReader) remove(o runtime.Object, to *made) {
	from := o.(*discoveryv1.EndpointSlice)
	s.drop(object{from.Namespace, from.Name}, to)
}

func (s *sliceReader) listed() {}

func (s *sliceReader) drop(id object, to *made) {
	service, had := s.of[id]
	if !had {
		return
	}
	delete(s.of, id)
	to.gone.Slices = append(to.gone.Slices, mesh.SliceKey{Service: service, Name: id.name})
	if delete(s.rows[service], id.name); len(s.rows[service]) == 0 {
		delete(s.rows, service)
		delete(s.shared, service)
		return
	}
	s.hand(service, nil, to)
}

// hand hands on one slice of a service that changed (nil: one has gone), and the others where they have something in
// common.
func (s *sliceReader) hand(service mesh.ServiceKey, changed *mesh.Slice, to *made) {
	if s.later != nil {
		s.later[service] = true
		return
	}
	all := s.rows[service]
	if len(all) > 1 || s.shared[service] {
		apart, shared := disjoint(slices.SortedFunc(maps.Values(all), compareSlice))
		if was := s.shared[service]; shared || was {
			s.shared[service] = shared
			to.rows.Slices = append(without(to.rows.Slices, service), apart...)
			return
		}
	}
	if changed != nil {
		to.rows.Slices = append(to.rows.Slices, changed)
	}
}

// without takes away what was to be handed on of a service: what follows says all of it.
func without(rows []*mesh.Slice, service mesh.ServiceKey) []*mesh.Slice {
	return slices.DeleteFunc(rows, func(r *mesh.Slice) bool { return r.Key.Service == service })
}

// disjoint returns slices of which no two have a port of an endpoint in common: the one where it is healthiest keeps it, of
// those the first by name. What slices say of one workload at one address is one endpoint. A port that they have on several
// numbers makes several endpoints, and so do several workloads at an address, as those on a machine's own network. A slice
// that loses nothing is the same.
func disjoint(all []*mesh.Slice) (out []*mesh.Slice, shared bool) {
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
		return all, false
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
	return out, true
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

// add adds ports whose names the endpoint does not have, and returns the others.
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
