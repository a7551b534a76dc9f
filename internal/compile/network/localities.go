package network

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// localities are the places of endpoints, machines, and workloads that groups describe, and the client localities in rules of load
// balancing. Each place comes with those that contain it: "r/z/s" with "r/z" and "r".
type localities struct {
	in       *input.Tables
	serving  *table.Table[mesh.Locality, struct{}]
	machines *table.Table[mesh.Locality, struct{}]
	groups   *table.Table[mesh.Locality, struct{}]
	rules    *table.Table[mesh.Locality, struct{}] // DestinationRules say what clients there do
	some     *table.Table[struct{}, struct{}]      // its row is there if some endpoint has a locality
}

func declareLocalities(in *input.Tables) localities {
	l := localities{in: in}
	l.serving = table.Keys(in.Serving, "serving/localities", mesh.CompareLocality,
		func(_ input.SourceKey, s input.Source) []mesh.Locality { return placesOf(s) }).SkipInOrigins()
	l.machines = table.Keys(in.Machines, "machines/localities", mesh.CompareLocality,
		func(_ mesh.MachineKey, m mesh.Machine) []mesh.Locality { return within(nil, m.Locality) }).SkipInOrigins()
	l.groups = table.Keys(in.WorkloadGroups, "workloadgroups/localities", mesh.CompareLocality,
		func(_ config.Key, o *config.Object) []mesh.Locality {
			return within(nil, mesh.ParseLocality(config.Spec[*networking.WorkloadGroup](o).GetTemplate().GetLocality()))
		}).SkipInOrigins()
	l.rules = table.Keys(in.DestinationRules, "destinationrules/localities", mesh.CompareLocality,
		func(_ config.Key, o *config.Object) (out []mesh.Locality) {
			spec := config.Spec[*networking.DestinationRule](o)
			out = fromPolicy(out, spec.GetTrafficPolicy())
			for _, s := range spec.GetSubsets() {
				out = fromPolicy(out, s.GetTrafficPolicy())
			}
			return out
		}).SkipInOrigins()
	l.some = table.Keys(l.serving, "localities", only,
		func(mesh.Locality, struct{}) []struct{} { return []struct{}{{}} }).SkipInOrigins()
	return l
}

// fromPolicy adds the localities of clients that a policy names.
func fromPolicy(out []mesh.Locality, p *networking.TrafficPolicy) []mesh.Locality {
	out = fromSetting(out, p.GetLoadBalancer().GetLocalityLbSetting())
	for _, port := range p.GetPortLevelSettings() {
		out = fromSetting(out, port.GetLoadBalancer().GetLocalityLbSetting())
	}
	return out
}

func fromSetting(out []mesh.Locality, s *networking.LocalityLoadBalancerSetting) []mesh.Locality {
	for _, d := range s.GetDistribute() {
		out = within(out, mesh.ParseLocality(strings.TrimSuffix(strings.TrimSuffix(d.GetFrom(), "*"), "/")))
	}
	for _, f := range s.GetFailover() {
		out = within(out, mesh.ParseLocality(f.GetFrom()))
	}
	return out
}

// placesOf returns the localities of a source's endpoints and workloads.
func placesOf(s input.Source) (out []mesh.Locality) {
	switch {
	case s.Slice != nil:
		for i := range s.Slice.Endpoints {
			out = within(out, s.Slice.Endpoints[i].Locality)
		}
	case s.Workload != nil:
		if said, ok := s.Workload.Labels.Locality(); ok {
			out = within(out, said)
		}
	case s.Object == nil:
	case s.Object.Kind == config.WorkloadEntry:
		out = within(out, mesh.ParseLocality(config.Spec[*networking.WorkloadEntry](s.Object).GetLocality()))
	case s.Object.Kind == config.ServiceEntry:
		for _, e := range config.Spec[*networking.ServiceEntry](s.Object).GetEndpoints() {
			out = within(out, mesh.ParseLocality(e.GetLocality()))
		}
	}
	return out
}

// within adds a locality to others, and those that it is in, each once.
func within(out []mesh.Locality, l mesh.Locality) []mesh.Locality {
	for ; l != (mesh.Locality{}); l = around(l) {
		if slices.Contains(out, l) {
			break // and with it those that it is in
		}
		out = append(out, l)
	}
	return out
}

// around returns the next larger place that contains a locality; zero: there is none.
func around(l mesh.Locality) mesh.Locality {
	switch {
	case l.SubZone != "":
		l.SubZone = ""
	case l.Zone != "":
		l.Zone = ""
	default:
		l = mesh.Locality{}
	}
	return l
}

// known returns as much of a locality as something of the mesh has.
func (l localities) known(r *table.Reader, of mesh.Locality) mesh.Locality {
	for ; of != (mesh.Locality{}); of = around(of) {
		if table.Has(r, l.serving, of) || table.Has(r, l.machines, of) || table.Has(r, l.groups, of) || table.Has(r, l.rules, of) ||
			slices.Contains(fromSetting(nil, l.in.LocalityLB(r)), of) {
			break
		}
	}
	return of
}

// LocalityOf returns the locality of a proxy: the one that it reports, as far as a part of the mesh is there too; else its workload's, by
// its cluster. Zero: it is unknown. odd reports that the mesh has localities, but no part of it is in the one that the proxy reports.
func (t *Tables) LocalityOf(r *table.Reader, p mesh.Proxy) (where mesh.Locality, odd bool) {
	if p.Locality != (mesh.Locality{}) {
		if where = t.places.known(r, p.Locality); where != (mesh.Locality{}) {
			return where, false
		}
		odd = table.Has(r, t.places.some, struct{}{})
	}
	if p.Cluster != "" {
		where = t.reg.LocalityOf(r, Kubernetes+p.Cluster, p)
	}
	return where, odd
}
