package telemetry

import (
	"cmp"
	"fmt"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetryv1alpha1 "istio.io/api/telemetry/v1alpha1"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/selects"
	"fairway/internal/compile/vouch"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
	"fairway/internal/envoy/telemetry"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Tables are the derived tables of this package.
type Tables struct {
	in    *input.Tables
	reg   *registry.Tables
	index *selects.Index[struct{}]
}

// Declare declares the package's tables.
func Declare(in *input.Tables, reg *registry.Tables) *Tables {
	t := &Tables{in: in, reg: reg}
	t.index = selects.Keys(in.Telemetries, "telemetries/for", func(o *config.Object) (selects.Selector, bool) {
		spec := config.Spec[*telemetryv1alpha1.Telemetry](o)
		return selects.Selector{
			Namespace: o.Namespace,
			Labels:    mesh.MakeLabels(spec.GetSelector().GetMatchLabels()),
			Targets:   selects.TargetsOf(spec.GetTargetRef(), spec.GetTargetRefs()), //nolint:staticcheck // deprecated, still taken
		}, true
	})
	t.index.Alike("telemetries/shadowed", func(r *table.Reader, s selects.Selector, list []selects.Entry[struct{}]) {
		if s.Labels == "" && s.Targets == "" {
			selects.Shadowed(r, in.Telemetries, "spec.selector", list)
		}
	})
	table.Derive(in.Telemetries, "telemetries/unused", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			for i, m := range config.Spec[*telemetryv1alpha1.Telemetry](o).GetMetrics() {
				if m.GetReportingInterval() != nil {
					r.Note(o.Problem(fmt.Sprintf("spec.metrics[%d].reportingInterval", i), code.Unused, mesh.Warning,
						"the field does nothing: stock Envoy counts a connection when it opens, and its bytes when it ends",
						"leave it out"))
				}
			}
		})
	table.Derive(in.Mesh, "telemetries/mesh", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if k.Kind == config.MeshConfig {
				t.accessLog(r, false, more{}, o)
				t.accessLog(r, true, more{}, o)
			}
		})
	return t
}

// Of names the Telemetries of a proxy's own namespace that hold for it: the oldest of those for all of the namespace, and the oldest of
// those that select it. It adds the proxy's own settings of spans, if they differ from the mesh's. Empty: there is nothing. The root
// namespace's Telemetry for the mesh is not in it, because it holds for all.
func (t *Tables) Of(r *table.Reader, p vouch.Proxy) string {
	holding := t.index.For(r, t.in.RootNamespace(r), p.Workload())
	var whole, own string
	if list := holding.Namespace(); len(list) > 0 && p.Namespace != t.in.RootNamespace(r) {
		whole = list[0].Key.Name
	}
	selects.Shadowed(r, t.in.Telemetries, "spec.selector", holding.Own())
	for _, e := range holding.Own() {
		if p.SelectedBy(e.Selector) {
			own = e.Key.Name
			break
		}
		if o, ok := table.Get(r, t.in.Telemetries, e.Key); ok {
			r.Note(vouch.Unvouched(o, "spec.selector", p))
		}
	}
	spans := t.ownSpans(r, p)
	if whole == "" && own == "" && spans == "" {
		return ""
	}
	out := named + p.Namespace + "/" + whole + "/" + own
	if spans != "" {
		out += "/" + spans
	}
	return out
}

// ownSpans returns a proxy's own settings of spans; empty: they are the mesh's, or cannot be read.
func (t *Tables) ownSpans(r *table.Reader, p vouch.Proxy) string {
	if p.Tracing == "" {
		return ""
	}
	usual, _ := t.in.Tracing(r)
	if own := readSpans(p.Tracing); own == nil || proto.Equal(own, usual) {
		return ""
	}
	return p.Tracing
}

// readSpans parses a ProxyConfig's tracing; nil: there is none, or it cannot be read. Fields of later releases are ignored.
func readSpans(text string) *meshconfig.Tracing {
	out := &meshconfig.Tracing{}
	if text == "" || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), out) != nil {
		return nil
	}
	return out
}

// named begins what Of returns, and identifies the shelves.
const named = "telemetry "

// more is a parsed result of Of.
type more struct {
	keys  []config.Key
	spans string // of the proxy's own configuration
}

func readMore(set string) (out more) {
	parts := strings.SplitN(strings.TrimPrefix(set, named), "/", 4)
	for _, name := range parts[1:3] {
		out.keys = append(out.keys, config.Key{Kind: config.Telemetry, Namespace: parts[0], Name: name})
	}
	if len(parts) > 3 {
		out.spans = parts[3]
	}
	return out
}

// root returns the Telemetry of the root namespace that holds for all of the mesh; false: there is none.
func (t *Tables) root(r *table.Reader) (config.Key, bool) {
	list := t.index.Whole(r, t.in.RootNamespace(r))
	if len(list) == 0 {
		return config.Key{}, false
	}
	return list[0].Key, true
}

// AccessLog returns what all proxies report about the requests that they serve, or about those that they send.
func (t *Tables) AccessLog(r *table.Reader, serves bool) listener.AccessLog {
	return t.accessLog(r, serves, more{}, nil)
}

// accessLog is AccessLog with Telemetries of a namespace after those that hold for all, and with a proxy's own settings of spans in place
// of the mesh's. If ofMesh is given, faults of the mesh's own settings are noted on it.
func (t *Tables) accessLog(r *table.Reader, serves bool, and more, ofMesh *config.Object) listener.AccessLog {
	out := t.resolve(r, serves, and, ofMesh)
	out.Quiet = t.in.ListenersQuiet(r)
	return out
}

func (t *Tables) resolve(r *table.Reader, serves bool, and more, ofMesh *config.Object) listener.AccessLog {
	var keys []config.Key
	if k, ok := t.root(r); ok {
		keys = append(keys, k)
	}
	keys = append(keys, and.keys...)
	var levels []telemetry.Level
	var objects []*config.Object
	for _, k := range keys {
		if o, ok := table.Get(r, t.in.Telemetries, k); ok {
			levels, objects = append(levels, config.Spec[*telemetryv1alpha1.Telemetry](o)), append(objects, o)
		}
	}
	defaults := t.in.DefaultProviders(r)
	m := telemetry.Mesh{Log: t.in.AccessLog(r), Defaults: defaults}
	m.Spans, m.Tracer = t.in.Tracing(r)
	if own := readSpans(and.spans); own != nil {
		m.Spans = own // the mesh still decides where they go: all proxies have clusters only for its services
	}
	if len(levels) == 0 && defaults == nil && m.Tracer == nil {
		return telemetry.Resolve(m, serves, nil)
	}
	m.Providers = t.in.ExtensionProviders(r)
	m.Cluster = func(service string, port uint32) (string, string, bool) { return t.cluster(r, service, port) }
	note := func(level int, field, message, fix string) {
		switch {
		case level >= 0:
			r.Note(objects[level].Problem(field, code.BadTelemetry, mesh.Error, message, fix))
		case ofMesh != nil:
			r.Note(ofMesh.Problem(cmp.Or(field, "defaultProviders"), code.BadTelemetry, mesh.Error, message, fix))
		}
	}
	return telemetry.Resolve(m, serves, note, levels...)
}

// cluster returns the cluster of a provider's service, "host" or "namespace/host" (MeshConfig.ExtensionProvider).
func (t *Tables) cluster(r *table.Reader, service string, port uint32) (name, host string, ok bool) {
	namespace, host, found := strings.Cut(service, "/")
	if !found {
		namespace, host = "", service
	}
	rows, _ := table.Get(r, t.reg.ServicesByHost, mesh.Host(host))
	for k, m := range rows.All() {
		if namespace != "" && k.Namespace != namespace {
			continue
		}
		for _, p := range m.Service.Ports {
			if p.Number == port {
				return mesh.ClusterKey{Host: mesh.Host(host), Port: port}.String(), host, true
			}
		}
	}
	return "", "", false
}

// Lay adds variants of listeners for proxies with Telemetries of their own namespace.
func (t *Tables) Lay(proxies *demand.Tables, parts []demand.Part) []demand.Part {
	told := demand.DeclarePatched(proxies.Singular, "told", Holding.At)
	type sides struct{ sends, serves listener.AccessLog }
	bySet := table.Derive(told.Values("told"), "telemetries/told", cmp.Compare[string], func(sides, sides) bool { return false },
		func(r *table.Reader, set string, _ struct{}, emit func(string, sides)) {
			and := readMore(set)
			emit(set, sides{t.accessLog(r, false, and, nil), t.accessLog(r, true, and, nil)})
		})
	one, rest := demand.Together(xdstype.Listeners, parts)
	return append(rest, told.Over(one, "told listeners",
		func(r *table.Reader, set string, _ mesh.ResourceKey, e *envoy.Encoded) *envoy.Encoded {
			l := &listenerv3.Listener{}
			if proto.Unmarshal(e.Body, l) != nil {
				return e
			}
			s, ok := table.Get(r, bySet, set)
			if !ok || listener.ReplaceTelemetry(l, s.sends, s.serves) != nil {
				return e
			}
			out := e.As(l)
			out.Needs = s.serves.Telemetry.With(s.sends.Telemetry.With(e.Needs))
			return out
		}))
}
