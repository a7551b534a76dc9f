package delegate

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// Make declares the complete VirtualServices, which replace those that delegate.
func Make(t *input.Tables) []input.Made {
	written := t.VirtualServices
	delegations := table.DeriveWhere(written, delegates, "delegate/named", config.CompareKey, slices.Equal[[]config.Key],
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(config.Key, []config.Key)) {
			emit(k, delegatesOf(o))
		})
	named := table.Group(delegations, "delegate/by delegate", config.CompareKey,
		func(_ config.Key, to []config.Key) []config.Key { return to })
	nameless := func(_ config.Key, o *config.Object) bool {
		return len(config.Spec[*networking.VirtualService](o).GetHosts()) == 0
	}
	table.DeriveWhere(written, nameless, "delegate/unnamed", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if !table.Has(r, named, k) {
				r.Note(o.Problem("spec.hosts", code.UnusedDelegate, mesh.Warning,
					"a VirtualService without hosts is a delegate, and no other one delegates to it: it has no effect",
					"name it in another one's http.delegate, or give it hosts"))
			}
		})
	return []input.Made{{
		Kind: config.VirtualService, Instead: true,
		Objects: table.Derive(delegations, "delegate/whole", config.CompareKey, config.Same,
			func(r *table.Reader, k config.Key, _ []config.Key, emit func(config.Key, *config.Object)) {
				if root, ok := table.Get(r, written, k); ok {
					w := whole{t: t, written: written, r: r, root: root}
					emit(k, w.object())
				}
			}),
	}}
}

// delegates reports whether a VirtualService names delegates.
func delegates(_ config.Key, o *config.Object) bool {
	return slices.ContainsFunc(config.Spec[*networking.VirtualService](o).GetHttp(), func(h *networking.HTTPRoute) bool {
		return h.GetDelegate() != nil
	})
}

// delegatesOf lists, once each, the delegates that a VirtualService names.
func delegatesOf(o *config.Object) (out []config.Key) {
	for _, h := range config.Spec[*networking.VirtualService](o).GetHttp() {
		if d := h.GetDelegate(); d != nil {
			out = append(out, keyOf(o, d))
		}
	}
	slices.SortFunc(out, config.CompareKey)
	return slices.Compact(out)
}

func keyOf(root *config.Object, d *networking.Delegate) config.Key {
	return config.Key{
		Kind: config.VirtualService, Namespace: cmp.Or(d.GetNamespace(), root.Namespace), Name: d.GetName(),
	}
}

// whole makes one VirtualService whole.
type whole struct {
	t       *input.Tables
	written *input.Objects
	r       *table.Reader
	root    *config.Object
	made    config.Made
	spec    *networking.VirtualService
}

// object returns the root with its delegates' routes. Problems are noted on the object that has to be changed.
func (w *whole) object() *config.Object {
	spec := config.Spec[*networking.VirtualService](w.root)
	w.spec = &networking.VirtualService{
		Hosts: spec.GetHosts(), Gateways: spec.GetGateways(), ExportTo: spec.GetExportTo(), Tls: spec.GetTls(), Tcp: spec.GetTcp(),
	}
	for i, h := range spec.GetHttp() {
		field := fmt.Sprintf("spec.http[%d]", i)
		if h.GetDelegate() == nil {
			w.add(proto.CloneOf(h), config.MadeOf{Of: field, Moved: true})
			continue
		}
		d := w.find(field+".delegate", h.GetDelegate())
		if d == nil {
			continue
		}
		for j, leaf := range config.Spec[*networking.VirtualService](d).GetHttp() {
			if leaf.GetDelegate() != nil {
				continue // refused where it is read
			}
			joined, conflicts := join(h, leaf, d.Namespace, w.t.DomainSuffix())
			for _, c := range conflicts {
				w.conflict(d, fmt.Sprintf("spec.http[%d].match[%d]", j, c.match), c.field, field)
			}
			if joined != nil {
				w.add(joined, config.MadeOf{Of: field + ".delegate", Foreign: true})
			}
		}
	}
	o := config.NewMade(w.root.Key, w.root, w.spec, &w.made)
	o.Labels, o.Annotations = w.root.Labels, w.root.Annotations
	return o
}

func (w *whole) add(h *networking.HTTPRoute, of config.MadeOf) {
	of.Field = fmt.Sprintf("spec.http[%d]", len(w.spec.Http))
	w.made.Fields = append(w.made.Fields, of)
	w.spec.Http = append(w.spec.Http, h)
}

// find returns the delegate that a route names. If it may not be used, find notes this and returns nil.
func (w *whole) find(field string, d *networking.Delegate) *config.Object {
	key := keyOf(w.root, d)
	o, ok := table.Get(w.r, w.written, key)
	note := func(message, fix string) *config.Object {
		w.r.Note(w.root.Problem(field, code.UnknownDelegate, mesh.Error, message+": the route takes no request", fix))
		return nil
	}
	named := fmt.Sprintf("VirtualService %s/%s", key.Namespace, key.Name)
	if !ok {
		return note("there is no "+named, "create it, or name another")
	}
	spec := config.Spec[*networking.VirtualService](o)
	if len(spec.GetHosts()) > 0 {
		return note(named+" has hosts, and a delegate has none", "take its hosts out, or name another")
	}
	if !mesh.Exported(w.t.ExportTo(w.r, config.VirtualService, spec.GetExportTo()), key.Namespace, w.root.Namespace) {
		return note(named+" is not exported to namespace "+w.root.Namespace, "add the namespace to its exportTo")
	}
	return o
}

// conflict notes on a delegate that one of its matches takes nothing that the root hands it.
func (w *whole) conflict(d *config.Object, at, field, root string) {
	p := d.Problem(at+"."+field, code.DelegateConflict, mesh.Warning,
		fmt.Sprintf("no request that %s of VirtualService %s/%s hands over comes here: its match is not within any of the root's",
			root, w.root.Namespace, w.root.Name),
		"match a part of what the root matches; what one of the two matches by regex the other does not match at all")
	p.Other = w.root.Ref
	w.r.Note(p)
}
