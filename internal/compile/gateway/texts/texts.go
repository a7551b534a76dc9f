// Package texts finds the clusters that only a text names, and no route of a gateway: a patch of an EnvoyFilter, settings of a Wasm module,
// a script. Gateways have only clusters that something names.
//
// The package must not know Gateways and their servers: a text counts for all gateways of its object's namespace. Start at Declare.
package texts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/scope"
	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// mostMentions is of how many clusters and hosts one object's texts count.
const mostMentions = 100

// clusterName finds names of clusters in texts, as mesh.ClusterKey writes them.
var clusterName = regexp.MustCompile(`outbound\|([0-9]{1,5})\|([A-Za-z0-9._-]*)\|([A-Za-z0-9.*_-]{1,253})`)

// mention says that an object's text names a cluster, or with port 0 all clusters of a host.
type mention struct {
	of      config.Key
	cluster mesh.ClusterKey
}

func compareMention(a, b mention) int {
	return cmp.Or(config.CompareKey(a.of, b.of), mesh.CompareClusterKey(a.cluster, b.cluster))
}

// Reads are the tables of other packages that this package reads.
type Reads struct {
	Input    *input.Tables
	Registry *registry.Tables
	Scope    *scope.Tables
	Demand   *demand.Tables
}

// Key says that a text names a cluster for the gateways of a layer.
type Key struct {
	Layer   mesh.Layer
	Cluster mesh.ClusterKey
}

func compareKey(a, b Key) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), mesh.CompareClusterKey(a.Cluster, b.Cluster))
}

// tables are what the rows of this package read.
type tables struct {
	in     *input.Tables
	sc     *scope.Tables
	byHost *table.Table[mesh.Host, table.Rows[registry.HostKey, *registry.Merged]]
}

// Declare declares the table of the clusters that texts name, for the gateways of the object's namespace, and for all if it is in the root
// namespace. A layer may not have all labels of its gateways: an object is left out only if a label has another value than it selects.
func Declare(of Reads) *table.Table[Key, struct{}] {
	t := &tables{of.Input, of.Scope, of.Registry.ServicesByHost}
	var all []*table.Table[string, table.Rows[mention, mesh.Labels]]
	for _, objects := range []*table.Table[config.Key, *config.Object]{t.in.EnvoyFilters, t.in.WasmPlugins, t.in.TrafficExtensions} {
		name := "gateway/texts of " + objects.Name()
		mentions := table.Derive(objects, name, compareMention, table.Same[mesh.Labels],
			func(r *table.Reader, k config.Key, o *config.Object, emit func(mention, mesh.Labels)) {
				for _, c := range t.mentions(r, o) {
					emit(mention{k, c}, selects.LabelsOf(o))
				}
			})
		all = append(all, table.Group(mentions, name+"/namespace", cmp.Compare[string], func(m mention, _ mesh.Labels) []string {
			return []string{m.of.Namespace}
		}))
	}
	return table.Derive(of.Demand.Gateways, "gateway/clusters in texts", compareKey, table.Same[struct{}],
		func(r *table.Reader, l mesh.Layer, _ struct{}, emit func(Key, struct{})) {
			seen := map[mesh.ClusterKey]bool{}
			for _, namespace := range []string{l.Namespace, t.in.RootNamespace(r)} {
				for _, mentions := range all {
					rows, _ := table.Get(r, mentions, namespace)
					for m, selects := range rows.All() {
						if contradict(mesh.Labels(l.Name), selects) {
							continue
						}
						for _, c := range t.meant(r, l, m.cluster) {
							if !seen[c] {
								seen[c] = true
								emit(Key{l, c}, struct{}{})
							}
						}
					}
				}
			}
		})
}

// contradict reports whether a label has another value than is selected.
func contradict(labels, selected mesh.Labels) bool {
	return slices.ContainsFunc(selected.Pairs(), func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		have, ok := labels.Get(name)
		return ok && have != value
	})
}

// meant lists the clusters that a mention means, as a layer sees its host.
func (t *tables) meant(r *table.Reader, l mesh.Layer, c mesh.ClusterKey) []mesh.ClusterKey {
	if c.Port != 0 {
		return []mesh.ClusterKey{c}
	}
	seen := t.sc.View(r, l, c.Host)
	if seen == nil || seen.Service == nil {
		return nil
	}
	var out []mesh.ClusterKey
	rule := t.sc.RuleOf(r, seen)
	for _, p := range seen.Service.Ports {
		c.Port, c.Subset = p.Number, ""
		out = append(out, c)
		if rule == nil {
			continue
		}
		for _, s := range rule.Spec.GetSubsets() {
			c.Subset = s.GetName()
			out = append(out, c)
		}
	}
	return out
}

// mentions lists, in order, the clusters that an object's texts name. It notes a host that no service declares.
func (t *tables) mentions(r *table.Reader, o *config.Object) []mesh.ClusterKey {
	var out []mesh.ClusterKey
	add := func(field string, c mesh.ClusterKey) {
		if len(out) >= mostMentions || slices.Contains(out, c) {
			return
		}
		out = append(out, c)
		if !table.Has(r, t.byHost, c.Host) {
			message := fmt.Sprintf("it names %s, and there is no service %s", shown(c), c.Host)
			r.Note(o.Problem(field, code.UnknownHost, mesh.Warning, message, "name a host that a service or ServiceEntry declares"))
		}
	}
	spec, isFilter := o.Spec.(*networking.EnvoyFilter)
	if !isFilter {
		for _, c := range namesIn(o.Spec) {
			add("spec", c)
		}
	}
	made := map[string]bool{} // by the object's own patches
	for _, p := range spec.GetConfigPatches() {
		if p.GetApplyTo() == networking.EnvoyFilter_CLUSTER {
			made[p.GetPatch().GetValue().GetFields()["name"].GetStringValue()] = true
		}
	}
	for i, p := range spec.GetConfigPatches() {
		switch p.GetMatch().GetContext() {
		case networking.EnvoyFilter_ANY, networking.EnvoyFilter_GATEWAY:
		default:
			continue
		}
		for _, c := range namesIn(p.GetPatch().GetValue()) {
			if !made[c.String()] {
				add(fmt.Sprintf("spec.configPatches[%d].patch.value", i), c)
			}
		}
	}
	for host := range strings.SplitSeq(o.Annotations[config.ReferencedServices], ",") {
		if host = strings.TrimSpace(host); isFilter && host != "" && len(host) <= 253 {
			add("metadata.annotations["+config.ReferencedServices+"]", mesh.ClusterKey{Host: mesh.Host(host)})
		}
	}
	slices.SortFunc(out, mesh.CompareClusterKey)
	return out
}

func shown(c mesh.ClusterKey) string {
	if c.Port == 0 {
		return string(c.Host)
	}
	return "cluster " + c.String()
}

// namesIn lists the clusters that texts of a message name, mostMentions at most.
func namesIn(m proto.Message) (out []mesh.ClusterKey) {
	_ = protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		text, ok := p.Index(-1).Value.Interface().(string)
		if !ok {
			return nil
		}
		for _, part := range clusterName.FindAllStringSubmatch(text, mostMentions-len(out)) {
			port, err := strconv.ParseUint(part[1], 10, 16)
			if err != nil || port == 0 {
				continue
			}
			out = append(out, mesh.ClusterKey{Port: uint32(port), Subset: part[2], Host: mesh.Host(part[3])})
		}
		if len(out) >= mostMentions {
			return protorange.Terminate
		}
		return nil
	})
	return out
}
