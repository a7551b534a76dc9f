package patch

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/amend"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// key names one entry of an EnvoyFilter's configPatches.
type key struct {
	filter config.Key
	at     int
}

// String names the entry as Encoded.Amended does.
func (k key) String() string {
	return k.filter.Namespace + "/" + k.filter.Name + ":" + strconv.Itoa(k.at)
}

// patch says which proxies a patch is for.
type patch struct {
	key     key
	agents  bool // it is of the bootstrap, which agents make
	side    side
	version *regexp.Regexp // that the proxy's version matches (match.proxy.proxyVersion)
	// metadata is what the proxy must report, with exactly these values (match.proxy.metadata).
	metadata map[string]string
}

func samePatch(a, b patch) bool {
	return a.key == b.key && a.agents == b.agents && a.side == b.side && a.version.String() == b.version.String() &&
		maps.Equal(a.metadata, b.metadata)
}

// filter is the part of an EnvoyFilter that says which proxies its patches are for, and their priority. It is immutable.
type filter struct {
	priority int32
	patches  []patch
}

func same(a, b filter) bool {
	return a.priority == b.priority && slices.EqualFunc(a.patches, b.patches, samePatch)
}

// side is the kind of proxies that a patch's context names (EnvoyFilter.PatchContext).
type side uint8

const (
	any side = iota
	sidecars
	gateways
)

// Tables are the derived tables of this package.
type Tables struct {
	in  *input.Tables
	who *vouch.Tables
	// Bootstrap holds the patches, each on a shelf of its own.
	Bootstrap *table.Table[mesh.ResourceKey, *envoy.Encoded]
	filters   *selects.Index[filter]
	read      *table.Table[key, *amendment]
	chosen    *table.Table[key, struct{}]      // patches that match the proxy's metadata or version
	choosing  *table.Table[struct{}, struct{}] // a row if there are such patches
	plans     *table.Table[string, *plan]
	// matched find the patches that matched something, in one table for each table of resources that are sent.
	matched []*table.Table[string, struct{}]
}

// Declare declares the package's tables.
func Declare(in *input.Tables, who *vouch.Tables) *Tables {
	t := &Tables{in: in, who: who}
	t.filters = selects.Declare(
		in.EnvoyFilters,
		"bootstrap patches/for",
		same,
		func(o *config.Object) (selects.Selector, filter, bool) {
			f := read(o)
			spec := config.Spec[*networking.EnvoyFilter](o)
			return selects.Selector{
				Namespace: o.Namespace,
				Labels:    mesh.MakeLabels(spec.GetWorkloadSelector().GetLabels()),
				Targets:   selects.TargetsOf(nil, spec.GetTargetRefs()),
			}, f, len(f.patches) > 0
		},
	)
	t.Bootstrap = table.Derive(t.filters.Entries, "bootstrap patches", mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, k config.Key, f selects.Entry[filter], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			for _, p := range f.Value.patches {
				if !p.agents {
					continue
				}
				if o, ok := table.Get(r, in.EnvoyFilters, k); ok && t.admitsBootstrap(r, o, p.key.at) {
					emit(resourceKey(p.key), t.encode(r, o, p.key))
				}
			}
		})
	table.Derive(in.EnvoyFilters, "bootstrap patches/notes", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) { t.noteIdle(r, o) })
	t.chosen = table.Derive(t.filters.Entries, "patches/chosen", compareKey, table.Same[struct{}],
		func(_ *table.Reader, _ config.Key, f selects.Entry[filter], emit func(key, struct{})) {
			for _, p := range f.Value.patches {
				if !p.agents && (len(p.metadata) > 0 || p.version.String() != "") {
					emit(p.key, struct{}{})
				}
			}
		})
	one := func(struct{}, struct{}) int { return 0 }
	t.choosing = table.Keys(t.chosen, "patches/choosing", one, func(key, struct{}) []struct{} { return []struct{}{{}} }).SkipInOrigins()
	t.declareRead()
	return t
}

// Part has each proxy see the patches that are for it.
func (t *Tables) Part() demand.Part {
	return demand.Part{Type: xdstype.Patches, Tables: []*demand.Published{t.Bootstrap}, Shelves: t.shelves}
}

// shelves returns the shelves with the bootstrap patches for a proxy: those of EnvoyFilters of the root namespace and of its own, for all
// their proxies or by labels (EnvoyFilter.workloadSelector).
func (t *Tables) shelves(r *table.Reader, id mesh.ProxyID, _ demand.Placement) []mesh.Shelf {
	proxy, ok := table.Get(r, t.who.Proxies, id)
	if !ok {
		return nil
	}
	var out []mesh.Shelf
	root, own := t.selecting(r, proxy)
	for _, e := range slices.Concat(root, own) {
		for _, p := range t.hold(r, e, proxy, true) {
			out = append(out, resourceKey(p.key).Shelf)
		}
	}
	slices.SortFunc(out, mesh.CompareShelf)
	return out
}

// selecting returns the filters of the root namespace, and those of the proxy's own, that select a proxy by the labels that it reports.
func (t *Tables) selecting(r *table.Reader, proxy vouch.Proxy) (root, own []selects.Entry[filter]) {
	holding := t.filters.For(r, t.in.RootNamespace(r), proxy.Workload())
	return slices.Concat(holding.Root(), holding.RootOwn()), slices.Concat(holding.Namespace(), holding.Own())
}

// hold lists a filter's patches that are for a proxy: those of its bootstrap, or all others. If the filter selects the proxy only by labels
// that are not vouched for, it returns none and notes this on the EnvoyFilter.
func (t *Tables) hold(r *table.Reader, e selects.Entry[filter], proxy vouch.Proxy, agents bool) (out []patch) {
	for _, p := range e.Value.patches {
		if p.agents == agents && p.means(proxy) {
			out = append(out, p)
		}
	}
	if len(out) == 0 || proxy.SelectedBy(e.Selector) {
		return out
	}
	if o, ok := table.Get(r, t.in.EnvoyFilters, e.Key); ok {
		field := "spec.workloadSelector"
		if e.Targets != "" {
			field = "spec.targetRefs"
		}
		r.Note(vouch.Unvouched(o, field, proxy))
	}
	return nil
}

// means reports whether the patch's match includes a proxy.
func (p patch) means(proxy vouch.Proxy) bool {
	if p.side == sidecars && proxy.Type != mesh.Sidecar || p.side == gateways && proxy.Type != mesh.Router {
		return false
	}
	for name, want := range p.metadata {
		if said, ok := proxy.Metadata.Get(name); !ok || said != want {
			return false
		}
	}
	return p.version.MatchString(proxy.Version)
}

func resourceKey(k key) mesh.ResourceKey {
	name := k.filter.Name + "/" + strconv.Itoa(k.at)
	return mesh.ResourceKey{
		Shelf: mesh.Shelf{Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: k.filter.Namespace}, Part: "patch/" + name},
		Name:  k.filter.Namespace + "/" + name,
	}
}

// read returns the patches of an EnvoyFilter that can have an effect, and which proxies each is for.
func read(o *config.Object) filter {
	spec := config.Spec[*networking.EnvoyFilter](o)
	out := filter{priority: spec.GetPriority()}
	for i, p := range spec.GetConfigPatches() {
		version, err := regexp.Compile(p.GetMatch().GetProxy().GetProxyVersion())
		if err != nil || hindrance(p) != "" {
			continue
		}
		out.patches = append(out.patches, patch{
			key: key{o.Key, i}, side: sideOf(p.GetMatch().GetContext()), version: version,
			agents: p.GetApplyTo() == networking.EnvoyFilter_BOOTSTRAP, metadata: p.GetMatch().GetProxy().GetMetadata(),
		})
	}
	return out
}

func sideOf(c networking.EnvoyFilter_PatchContext) side {
	switch c {
	case networking.EnvoyFilter_SIDECAR_INBOUND, networking.EnvoyFilter_SIDECAR_OUTBOUND:
		return sidecars
	case networking.EnvoyFilter_GATEWAY:
		return gateways
	}
	return any
}

// hindrance is why a patch has no effect; empty: it has.
func hindrance(p *networking.EnvoyFilter_EnvoyConfigObjectPatch) string {
	boot := p.GetApplyTo() == networking.EnvoyFilter_BOOTSTRAP
	switch {
	case !boot && !amend.Known(p.GetApplyTo()):
		return "patches of " + p.GetApplyTo().String()
	case boot && p.GetPatch().GetOperation() != networking.EnvoyFilter_Patch_MERGE:
		return "operations on a bootstrap other than MERGE"
	}
	return ""
}

// noteIdle notes an object's patches that have no effect.
func (t *Tables) noteIdle(r *table.Reader, o *config.Object) {
	spec := config.Spec[*networking.EnvoyFilter](o)
	for i, p := range spec.GetConfigPatches() {
		if why := hindrance(p); why != "" {
			r.Note(input.WithoutEffect(o, fmt.Sprintf("spec.configPatches[%d]", i), why))
		}
	}
	selects.NoteTargets(r, o, t.in.RootNamespace(r), "EnvoyFilters", spec.GetTargetRefs())
}

// rank orders the patches of one priority: those of the root namespace come first.
func (t *Tables) rank(r *table.Reader, filter config.Key) int {
	if filter.Namespace == t.in.RootNamespace(r) {
		return 0
	}
	return 1
}

// encode encodes a patch with its place in the order of patches (EnvoyFilter.priority): by priority, those of the root namespace first,
// then by age and name.
func (t *Tables) encode(r *table.Reader, o *config.Object, k key) *envoy.Encoded {
	spec := config.Spec[*networking.EnvoyFilter](o)
	order := fmt.Sprintf("%010d|%d|%020d|%s|%s|%04d", int64(spec.GetPriority())-math.MinInt32, t.rank(r, k.filter),
		max(o.Created, 0), k.filter.Namespace, k.filter.Name, k.at)
	return envoy.Sealed(bootstrap.Patch{Order: order, Value: spec.GetConfigPatches()[k.at].GetPatch().GetValue()}.Encode())
}
