package extension

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/extension"
	"fairway/internal/envoy/inspect"
	"fairway/internal/envoy/listener"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Tables are the derived tables of this package.
type Tables struct {
	in      *input.Tables
	objects *table.Table[config.Key, *config.Object] // of both kinds
	index   *selects.Index[struct{}]
	// read holds each object's extension; one that cannot run has no configuration, and its filter does what its failStrategy says.
	read *table.Table[config.Key, *made]
	// configs are for Envoys, orders for agents.
	configs, orders *demand.Published
	pulls           pulls
}

// made is an extension with facts about its object.
type made struct {
	*extension.Extension
	hash    uint64
	created int64
	runs    bool // it has a configuration; that depends on the mesh configuration too
}

// Declare declares the package's tables.
func Declare(in *input.Tables) *Tables {
	t := &Tables{in: in}
	t.objects = table.Union("extensions/objects", config.CompareKey, config.Same, nil,
		table.Whole(in.WasmPlugins), table.Whole(in.TrafficExtensions))
	t.index = selects.Keys(t.objects, "extensions/for", func(o *config.Object) (selects.Selector, bool) {
		labels, one, list := selecting(o)
		return selects.Selector{
			Namespace: o.Namespace, Labels: mesh.MakeLabels(labels.GetMatchLabels()), Targets: selects.TargetsOf(one, list),
		}, true
	})
	t.read = table.Derive(t.objects, "extensions", config.CompareKey,
		func(a, b *made) bool { return a.hash == b.hash && a.created == b.created && a.runs == b.runs },
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *made)) {
			_, _, targets := selecting(o)
			selects.NoteTargets(r, o, in.RootNamespace(r), "extensions", targets)
			e, field, err := read(o)
			if err != nil {
				e.Config, e.Module = nil, nil
				r.Note(o.Problem(field, code.BadValue, mesh.Error,
					"the extension cannot run: "+err.Error()+"; what would pass it "+instead(e), "write what Istio's reference says"))
			}
			t.inspect(r, o, e)
			if key, at := verificationKey(o); key != "" {
				r.Note(o.Problem(at, code.Unused, mesh.Warning,
					"the field does nothing, as with Istio: no signature is looked at", "pin the module by sha256"))
			}
			created := o.Created
			if k.Kind == config.WasmPlugin {
				created = 0 // of WasmPlugins of one priority the name decides, not the age (wasm.proto, WasmPlugin.priority)
			}
			emit(k, &made{e, o.Hash, created, e.Config != nil})
		})
	t.configs = t.publish("extension configs", func(e *made) *envoy.Encoded {
		if e.Config == nil || !e.Local() {
			return nil
		}
		return e.Resource()
	})
	t.orders = t.publish("extension orders", func(e *made) *envoy.Encoded {
		if e.Module == nil {
			return nil
		}
		return e.Order("")
	})
	t.declareNamed()
	return t
}

// inspect takes the configuration from an extension that may not run: one that leads to the agent beside Envoy, or Lua in a namespace that
// may not run it.
func (t *Tables) inspect(r *table.Reader, o *config.Object, e *extension.Extension) {
	if e.Config == nil {
		return
	}
	_, folder := t.in.ProxyPlaces(r)
	inspector := inspect.Inspector{Folder: folder}
	found, field := inspector.Message(e.Config), "spec"
	if e.Module != nil && found.Err == nil {
		found.Err, field = inspector.Text(e.Module.URL), "spec.url"
		if o.Kind != config.WasmPlugin {
			field = "spec.wasm.url"
		}
	}
	if found.Err != nil {
		e.Config, e.Module = nil, nil
		r.Note(o.Problem(field, code.ProxysOwn, mesh.Error,
			"the extension cannot run: "+found.Err.Error()+"; what would pass it "+instead(e), "leave it out"))
		return
	}
	if !found.Lua {
		return
	}
	problem, told, may := t.in.LuaProblem(r, o, "spec.lua.inlineCode")
	if told {
		r.Note(problem)
	}
	if !may {
		e.Config = nil
	}
}

// publish publishes something of each extension, on a shelf of its own; nil: there is none.
func (t *Tables) publish(name string, of func(*made) *envoy.Encoded) *demand.Published {
	return table.Derive(t.read, name, mesh.CompareResourceKey, envoy.Same,
		func(_ *table.Reader, k config.Key, e *made, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			if out := of(e); out != nil {
				emit(mesh.ResourceKey{Shelf: shelf(k), Name: e.Name}, out)
			}
		})
}

func shelf(k config.Key) mesh.Shelf {
	return mesh.Shelf{
		Layer: mesh.Layer{Kind: mesh.NamespaceLayer, Namespace: k.Namespace}, Part: "extension/" + string(k.Kind) + "/" + k.Name,
	}
}

// selecting returns the selector and the targets of an object.
func selecting(o *config.Object) (
	*typev1beta1.WorkloadSelector, *typev1beta1.PolicyTargetReference, []*typev1beta1.PolicyTargetReference,
) {
	if o.Kind == config.WasmPlugin {
		p := config.Spec[*extensions.WasmPlugin](o)
		return p.GetSelector(), p.GetTargetRef(), p.GetTargetRefs() //nolint:staticcheck // deprecated, still taken
	}
	p := config.Spec[*extensions.TrafficExtension](o)
	return p.GetSelector(), nil, p.GetTargetRefs()
}

func read(o *config.Object) (*extension.Extension, string, error) {
	version := strconv.FormatUint(o.Hash, 16)
	if o.Kind == config.WasmPlugin {
		return extension.OfPlugin(o.Namespace, o.Name, version, config.Spec[*extensions.WasmPlugin](o))
	}
	return extension.OfTraffic(o.Namespace, o.Name, version, config.Spec[*extensions.TrafficExtension](o))
}

// verificationKey returns the key that verifies a module's signature, and the field with the key.
func verificationKey(o *config.Object) (key, field string) {
	if o.Kind == config.WasmPlugin {
		return config.Spec[*extensions.WasmPlugin](o).GetVerificationKey(), "spec.verificationKey"
	}
	return config.Spec[*extensions.TrafficExtension](o).GetWasm().GetVerificationKey(), "spec.wasm.verificationKey"
}

// named is the prefix of the texts that Of returns. These texts name shelves.
const named = "extended "

// Of returns a text with the extensions that hold for a proxy, and whether its agent fetches modules; empty: there are none.
func (t *Tables) Of(r *table.Reader, p vouch.Proxy) string {
	h := t.index.For(r, t.in.RootNamespace(r), p.Workload())
	var keys []config.Key
	for _, e := range slices.Concat(h.Root(), h.RootOwn(), h.Namespace(), h.Own()) {
		if p.SelectedBy(e.Selector) {
			keys = append(keys, e.Key)
			t.noteAlone(r, e.Key, p)
		} else if o, ok := table.Get(r, t.objects, e.Key); ok {
			r.Note(vouch.Unvouched(o, "spec.selector", p))
		}
	}
	if len(keys) == 0 {
		return ""
	}
	slices.SortFunc(keys, config.CompareKey)
	out := named + "alone"
	if p.Modules {
		out = named + "modules"
	}
	for _, k := range slices.Compact(keys) {
		out += " " + string(k.Kind) + "/" + k.Namespace + "/" + k.Name
	}
	return out
}

// noteAlone notes an extension if a proxy has no agent that fetches its module.
func (t *Tables) noteAlone(r *table.Reader, k config.Key, p vouch.Proxy) {
	e, ok := table.Get(r, t.read, k)
	if !ok || p.Modules || e.Local() {
		return
	}
	what := code.NotRun
	if e.FailOpen && e.Phase <= listener.Authorization {
		what = code.NotEnforced
	}
	if o, ok := table.Get(r, t.objects, k); ok {
		r.Note(o.Problem("spec", what, mesh.Error,
			"a proxy has no agent that fetches and verifies modules: what would pass the extension there "+instead(e.Extension),
			"start it by pilot-agent with the relay (--xdsRelay), or name a file that it has by file:// without sha256"))
	}
}

// instead says what happens to traffic while an extension does not run.
func instead(e *extension.Extension) string {
	if e.FailOpen {
		return "goes on without it (FAIL_OPEN)"
	}
	return "is refused (FAIL_CLOSE)"
}

// keysOf reads what Of named.
func keysOf(set string) (modules bool, out []config.Key) {
	words := strings.Fields(strings.TrimPrefix(set, named))
	for _, word := range words[min(1, len(words)):] {
		part := strings.SplitN(word, "/", 3)
		out = append(out, config.Key{Kind: config.Kind(part[0]), Namespace: part[1], Name: part[2]})
	}
	return len(words) > 0 && words[0] == "modules", out
}

// placed returns the extensions of a set, in the order in which traffic passes them: by phase and priority. At the same priority
// WasmPlugins come by name, then TrafficExtensions by age and name.
func (t *Tables) placed(r *table.Reader, set string) []extension.Placed {
	modules, keys := keysOf(set)
	type one struct {
		*made
		key config.Key
	}
	var all []one
	for _, k := range keys {
		if e, ok := table.Get(r, t.read, k); ok {
			all = append(all, one{e, k})
		}
	}
	slices.SortFunc(all, func(a, b one) int {
		return cmp.Or(extension.Compare(a.Extension, b.Extension), cmp.Compare(a.created, b.created),
			cmp.Compare(a.key.Name, b.key.Name), cmp.Compare(a.key.Namespace, b.key.Namespace), config.CompareKey(a.key, b.key))
	})
	var out []extension.Placed
	for _, e := range all {
		from := extension.ControlPlane
		switch {
		case e.Config == nil:
			from = extension.NoServer
		case e.Module == nil:
		case modules:
			from = extension.Agent
		case !e.Local():
			from = extension.NoServer
		}
		out = append(out, extension.Placed{Extension: e.Extension, From: from})
	}
	return out
}

// Lay lays over the listeners of proxies those with the filters that hold for them, and adds the parts of what these run.
func (t *Tables) Lay(proxies *demand.Tables, parts []demand.Part) []demand.Part {
	extended := demand.DeclarePatched(proxies.Singular, "extended", Holding.At)
	one, rest := demand.Together(xdstype.Listeners, parts)
	extend := func(r *table.Reader, set string, _ mesh.ResourceKey, e *envoy.Encoded) *envoy.Encoded {
		l := &listenerv3.Listener{}
		if proto.Unmarshal(e.Body, l) != nil {
			return e
		}
		changed, err := extension.Into(l, t.placed(r, set))
		if err != nil || !changed {
			return e
		}
		return e.As(l)
	}
	return append(rest, extended.Over(one, "extended listeners", extend),
		demand.Part{Type: xdstype.Extensions, Tables: []*demand.Published{t.configs}, Shelves: t.shelvesOf(false)},
		demand.Part{Type: xdstype.Modules, Tables: []*demand.Published{t.orders, t.pulls.orders}, Shelves: t.shelvesOf(true)})
}

// shelvesOf lists the shelves of a proxy's extensions. For agents it lists them only if the proxy's agent fetches modules.
func (t *Tables) shelvesOf(agents bool) func(*table.Reader, mesh.ProxyID, demand.Placement) []mesh.Shelf {
	return func(r *table.Reader, _ mesh.ProxyID, p demand.Placement) (out []mesh.Shelf) {
		modules, keys := keysOf(Holding.At(p))
		if agents && !modules {
			return nil
		}
		for _, k := range keys {
			if out = append(out, shelf(k)); agents && t.mayPull(r, k, p) {
				out = append(out, pullShelf(k))
			}
		}
		return out
	}
}
