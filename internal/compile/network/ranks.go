package network

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// clusterLabel is the name that ranks use for the cluster of a proxy or of an endpoint.
const clusterLabel = "topology.istio.io/cluster"

// machineLabel is the name that ranks use for the machine that a proxy or an endpoint runs on.
const machineLabel = "kubernetes.io/hostname"

// some is the term of every rule that ranks endpoints. No label has this name.
const some = ""

// declareRanks indexes the labels that DestinationRules use to rank endpoints by the client's values.
func (t *Tables) declareRanks() {
	ranks := func(_ config.Key, o *config.Object) bool { return len(labelsRanking(o)) > 0 }
	asked := table.DeriveWhere(t.in.DestinationRules, ranks, "ranks/rules", config.CompareKey, slices.Equal[[]string],
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, []string)) {
			names := labelsRanking(o)
			slices.Sort(names)
			emit(k, slices.Compact(names))
		})
	t.ranks = table.Keys(asked, "ranks/labels", cmp.Compare[string],
		func(_ config.Key, names []string) []string { return names }).SkipInOrigins()
}

// labelsRanking lists the labels that a DestinationRule ranks endpoints by, with the term some among them.
func labelsRanking(o *config.Object) []string {
	spec := config.Spec[*networking.DestinationRule](o)
	names := namesOf(spec.GetTrafficPolicy())
	for _, s := range spec.GetSubsets() {
		names = append(names, namesOf(s.GetTrafficPolicy())...)
	}
	return names
}

func namesOf(p *networking.TrafficPolicy) (out []string) {
	out = ranked(p.GetLoadBalancer())
	for _, port := range p.GetPortLevelSettings() {
		out = append(out, ranked(port.GetLoadBalancer())...)
	}
	return out
}

func ranked(lb *networking.LoadBalancerSettings) []string {
	return append(ranking(lb.GetLocalityLbSetting()), ranking(lb.GetZoneAwareLbSetting())...)
}

// ranking returns the names of labels that are compared with the client's values, and the term some for each label of the list.
func ranking(s interface{ GetFailoverPriority() []string }) (out []string) {
	for _, label := range s.GetFailoverPriority() {
		name, _, given := strings.Cut(label, "=")
		if out = append(out, some); !given {
			out = append(out, name)
		}
	}
	return out
}

// asking returns a function that reports whether rules compare a label with a proxy's, and the proxy's machine if they compare that.
func (t *Tables) asking(r *table.Reader, p mesh.Proxy) (asks func(name string) bool, machine mesh.MachineRef) {
	byMesh := append(ranking(t.in.LocalityLB(r)), ranking(t.in.ZoneAwareLB(r))...)
	asks = func(name string) bool { return slices.Contains(byMesh, name) || table.Has(r, t.ranks, name) }
	return asks, t.NearMachineOf(r, p, asks(machineLabel))
}

// ranked reports whether any rule ranks endpoints for a proxy.
func (t *Tables) ranked(r *table.Reader, p vouch.Proxy) bool {
	asks, machine := t.asking(r, p.Proxy)
	return asks(some) || machine != (mesh.MachineRef{})
}

// ranksOf keeps those of a proxy's labels that rules compare.
func (t *Tables) ranksOf(r *table.Reader, p vouch.Proxy) mesh.Labels {
	asks, machine := t.asking(r, p.Proxy)
	if !asks(some) && machine == (mesh.MachineRef{}) {
		return ""
	}
	kept := map[string]string{}
	if machine != (mesh.MachineRef{}) {
		kept[machineLabel] = machine.String()
	}
	for _, pair := range p.Labels.Pairs() { // in order, so that each run reads alike
		if name, value, _ := strings.Cut(pair, "="); asks(name) && name != machineLabel {
			kept[name] = value
		}
	}
	if p.Cluster != "" && asks(clusterLabel) {
		kept[clusterLabel] = p.Cluster
	}
	return mesh.MakeLabels(kept)
}
