package patch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/amend"
	_ "fairway/internal/envoy/known" // what patches may hold
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// amendment is a decoded patch of a resource that is sent. It is immutable.
type amendment struct {
	*amend.Patch
	of   uint64 // config.Object.Hash of its EnvoyFilter
	adds string // the name of a cluster that it adds; empty: none
}

func compareKey(a, b key) int {
	return cmp.Or(config.CompareKey(a.filter, b.filter), cmp.Compare(a.at, b.at))
}

// declareRead reads each patch once. A patch that cannot be read changes nothing and gives its EnvoyFilter a problem.
func (t *Tables) declareRead() {
	same := func(a, b *amendment) bool { return a.of == b.of }
	t.read = table.Derive(t.in.EnvoyFilters, "patches", compareKey, same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(key, *amendment)) {
			spec := config.Spec[*networking.EnvoyFilter](o)
			for i, p := range spec.GetConfigPatches() {
				if p.GetApplyTo() == networking.EnvoyFilter_BOOTSTRAP || hindrance(p) != "" {
					continue
				}
				out, field, err := amend.Read(p)
				if err != nil {
					r.Note(o.Problem(fmt.Sprintf("spec.configPatches[%d].%s", i, field), code.BadPatch, mesh.Error,
						"the patch is not applied: "+err.Error(), "write it as Envoy's API has it, in JSON or YAML"))
					continue
				}
				if !t.admitsMessage(r, o, i, out.Value()) {
					continue
				}
				a := &amendment{Patch: out, of: o.Hash}
				if c, ok := out.Value().(*clusterv3.Cluster); ok && out.Adds() {
					a.adds = c.GetName()
				}
				emit(key{k, i}, a)
			}
		})
}

// Of names the patches that apply to the resources of a proxy, in the order in which they are applied; empty: there are none. Proxies with
// the same result are sent the same variant of their layer's resources.
func (t *Tables) Of(r *table.Reader, proxy vouch.Proxy) string {
	root, own := t.selecting(r, proxy)
	var out []string
	list := slices.SortedFunc(slices.Values(slices.Concat(root, own)), func(a, b selects.Entry[filter]) int {
		return cmp.Or(cmp.Compare(a.Value.priority, b.Value.priority), cmp.Compare(t.rank(r, a.Key), t.rank(r, b.Key)),
			cmp.Compare(a.Created, b.Created), config.CompareKey(a.Key, b.Key))
	})
	for _, e := range list {
		var at []string
		for _, p := range t.hold(r, e, proxy, false) {
			at = append(at, strconv.Itoa(p.key.at))
		}
		if len(at) > 0 {
			out = append(out, e.Key.Namespace+"/"+e.Key.Name+":"+strings.Join(at, ","))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return map[bool]string{true: "router", false: "sidecar"}[proxy.Type == mesh.Router] + " " + strings.Join(out, " ")
}

// choice names the patches that match metadata or a version that a proxy reports; empty: there are none.
func (t *Tables) choice(r *table.Reader, p vouch.Proxy) string {
	if !table.Has(r, t.choosing, struct{}{}) {
		return ""
	}
	var out []string
	_, keys := keysOf(t.Of(r, p))
	for _, k := range keys {
		if table.Has(r, t.chosen, k) {
			out = append(out, k.String())
		}
	}
	return strings.Join(out, " ")
}

// keysOf parses a result of Of: the keys of the patches, and whether they are for a gateway.
func keysOf(set string) (gateway bool, out []key) {
	kind, list, _ := strings.Cut(set, " ")
	for one := range strings.SplitSeq(list, " ") {
		name, at, _ := strings.Cut(one, ":")
		namespace, name, _ := strings.Cut(name, "/")
		for text := range strings.SplitSeq(at, ",") {
			i, _ := strconv.Atoi(text)
			out = append(out, key{config.Key{Kind: config.EnvoyFilter, Namespace: namespace, Name: name}, i})
		}
	}
	return kind == "router", out
}

// Lay adds the changed variants of resources, on shelves above the originals, and returns the parts with those of added resources.
func (t *Tables) Lay(proxies *demand.Tables, parts []demand.Part) []demand.Part {
	t.declarePlans(proxies)
	patched := demand.DeclarePatched(proxies.Singular, "patched", Holding.At)
	for _, typ := range []xdstype.Type{xdstype.Clusters, xdstype.Listeners, xdstype.Routes, xdstype.VirtualHosts} {
		one, rest := demand.Together(typ, parts)
		change := func(r *table.Reader, set string, k mesh.ResourceKey, e *envoy.Encoded) *envoy.Encoded {
			return t.change(r, typ, set, k.Name, e)
		}
		over := patched.Over(one, "patched "+strings.ToLower(typ.String()), change)
		for _, of := range over.Tables[len(one.Tables):] {
			t.matched = append(t.matched, matchedIn(of))
		}
		parts = append(rest, over)
	}
	clusters, held := t.added(proxies, xdstype.Clusters)
	listeners, _ := t.added(proxies, xdstype.Listeners)
	extensions := t.extensions(proxies)
	t.declareUnmatched(held)
	return append(parts, clusters, listeners, extensions)
}

// matchedIn finds the patches that matched something in a table. Resources that the same patches matched count once, because there may be
// thousands of both.
func matchedIn(of *demand.Published) *table.Table[string, struct{}] {
	lists := table.Keys(of, of.Name()+"/lists", cmp.Compare[string], func(_ mesh.ResourceKey, e *envoy.Encoded) []string {
		if len(e.Amended) == 0 {
			return nil
		}
		return []string{unique.Make(strings.Join(e.Amended, " ")).Value()}
	})
	return table.Keys(lists, of.Name()+"/by", cmp.Compare[string], func(list string, _ struct{}) []string { return strings.Fields(list) })
}

// declareUnmatched notes patches that are for a connected proxy and match no resource of any such proxy.
func (t *Tables) declareUnmatched(views *table.Table[demand.View, struct{}]) {
	held := table.Keys(views, "patches/held", cmp.Compare[string], func(v demand.View, _ struct{}) (out []string) {
		_, keys := keysOf(patches.Of(v))
		for _, k := range keys {
			out = append(out, k.String())
		}
		return out
	})
	table.Derive(t.read, "patches/unmatched", compareKey, table.Same[struct{}],
		func(r *table.Reader, k key, a *amendment, _ func(key, struct{})) {
			has := func(of *table.Table[string, struct{}]) bool {
				return table.Has(r, of, k.String())
			}
			if a.needsNoMatch() || !table.Has(r, held, k.String()) || slices.ContainsFunc(t.matched, has) {
				return
			}
			if o, ok := table.Get(r, t.in.EnvoyFilters, k.filter); ok {
				r.Note(o.Problem(fmt.Sprintf("spec.configPatches[%d].match", k.at), code.NoMatch, mesh.Warning,
					"the patch matches nothing of what the connected proxies have that it is for: it changes nothing",
					"pilotctl proxy-config has the names of what there is; match one of those, or leave the patch out"))
			}
		})
}

// needsNoMatch reports whether the patch adds something without a match of an existing resource.
func (a *amendment) needsNoMatch() bool {
	if a.Extension(amend.Inbound, amend.Outbound, amend.Gateway) != nil && a.Adds() {
		return true
	}
	for _, typ := range []xdstype.Type{xdstype.Clusters, xdstype.Listeners} {
		if a.addition(typ, true) != nil || a.addition(typ, false) != nil {
			return true
		}
	}
	return false
}

// patches is the set of patches that change what proxies are sent.
var patches = demand.Derived("added patches", Holding.At, demand.Quoteless[string]("added by "))

// added are the views of proxies that have patches which add something to their topmost layer.
var added = demand.Kind{
	Traits: []demand.AnyTrait{patches}, Over: []demand.AnyTrait{patches},
	On: func(p demand.Placement, l mesh.Layer) bool { return l == p.Layer },
}

// extensions are the configurations of filters that name them (applyTo EXTENSION_CONFIG), after all patches of each.
func (t *Tables) extensions(proxies *demand.Tables) demand.Part {
	const name = "added extension configs"
	views := demand.DeclareViews(proxies, name+"/views", added)
	published := table.Derive(views.Table, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, v demand.View, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			gateway, keys := keysOf(patches.Of(v))
			now := map[string]*corev3.TypedExtensionConfig{}
			by := map[string][]string{}
			for _, k := range keys {
				a, ok := table.Get(r, t.read, k)
				if !ok {
					continue
				}
				value := a.Extension(contextsOf(gateway)...)
				if value == nil {
					continue
				}
				name := value.GetName()
				changed, matched, err := a.Extend(now[name])
				if err != nil || matched {
					by[name] = append(by[name], k.String())
				}
				if err != nil {
					t.note(r, k, "the patch cannot be applied: "+err.Error())
					continue
				}
				if matched && t.encoded(r, k, changed) != nil {
					now[name] = changed
				}
			}
			for _, name := range slices.Sorted(maps.Keys(now)) {
				e := envoy.Encode(now[name])
				e.Amended = by[name]
				emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: name}, e)
			}
		})
	t.matched = append(t.matched, matchedIn(published))
	return added.Part(xdstype.Extensions, published)
}

// contextsOf returns the contexts of patches for a kind of proxy.
func contextsOf(gateway bool) []amend.Context {
	if gateway {
		return []amend.Context{amend.Gateway}
	}
	return []amend.Context{amend.Inbound, amend.Outbound}
}

// added returns the resources of a type that patches add, and the sets of patches for connected proxies, by layer.
func (t *Tables) added(proxies *demand.Tables, typ xdstype.Type) (demand.Part, *table.Table[demand.View, struct{}]) {
	name := "added " + strings.ToLower(typ.String())
	views := demand.DeclareViews(proxies, name+"/views", added)
	published := table.Derive(views.Table, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, v demand.View, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			gateway, keys := keysOf(patches.Of(v))
			seen := map[string]bool{}
			for _, k := range keys {
				a, ok := table.Get(r, t.read, k)
				if !ok {
					continue
				}
				m := a.addition(typ, gateway)
				if m == nil || seen[m.GetName()] {
					continue
				}
				seen[m.GetName()] = true
				e := t.encoded(r, k, m)
				if e != nil {
					emit(mesh.ResourceKey{Shelf: v.Shelf(), Name: m.GetName()}, e)
				}
			}
		})
	return added.Part(typ, published), views.Table
}

// named is a message that is sent under its name.
type named interface {
	envoy.Message
	GetName() string
}

// addition returns the resource of a type that a patch adds for a kind of proxy; nil: it adds none.
func (a *amendment) addition(typ xdstype.Type, gateway bool) named {
	for _, c := range contextsOf(gateway) {
		switch m := a.Added(c).(type) {
		case *clusterv3.Cluster:
			if typ == xdstype.Clusters {
				return m
			}
		case *listenerv3.Listener:
			if typ == xdstype.Listeners {
				return m
			}
		}
	}
	return nil
}

// encoded returns a message as it is sent. If the message's own validation fails, it returns nil and notes this on the EnvoyFilter.
func (t *Tables) encoded(r *table.Reader, k key, m envoy.Message) *envoy.Encoded {
	e := sealed(m, nil)
	if e.Err != nil {
		t.note(r, k, invalidResult(e.Err))
		return nil
	}
	return e
}

func invalidResult(err error) string {
	return "what the patch makes is not what Envoy takes: " + err.Error()
}

// sealed encodes a message in the place of another; nil: of none.
func sealed(m envoy.Message, like *envoy.Encoded) *envoy.Encoded {
	e := envoy.Encode(m)
	if e.Err != nil {
		return e
	}
	if like != nil {
		e.Needs, e.Secrets, e.WithoutVHDS = like.Needs, like.Secrets, like.WithoutVHDS
	}
	if c, ok := m.(*clusterv3.Cluster); ok && c.GetType() == clusterv3.Cluster_EDS {
		e.Load = cmp.Or(c.GetEdsClusterConfig().GetServiceName(), c.GetName())
	}
	return e
}

// note notes on an EnvoyFilter why one of its patches is not applied to a resource.
func (t *Tables) note(r *table.Reader, k key, message string) {
	if o, ok := table.Get(r, t.in.EnvoyFilters, k.filter); ok {
		r.Note(o.Problem(fmt.Sprintf("spec.configPatches[%d].patch", k.at), code.BadPatch, mesh.Error, message,
			"the resources without the patch stay in force"))
	}
}
