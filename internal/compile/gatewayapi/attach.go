package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/parents"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// attachmentKey names a route at a listener.
type attachmentKey struct {
	route    config.Key
	listener listenerKey
}

func compareAttachment(a, b attachmentKey) int {
	return cmp.Or(config.CompareKey(a.route, b.route), compareListener(a.listener, b.listener))
}

// attachment says which requests or connections of a listener a route may take.
type attachment struct {
	route    *config.Object
	listener *listener
	hosts    []mesh.Host // sorted
}

func sameAttachment(a, b *attachment) bool {
	return config.Same(a.route, b.route) && sameListener(a.listener, b.listener) && slices.Equal(a.hosts, b.hosts)
}

// declareAttachments attaches routes of a kind to listeners.
func (m *maker) declareAttachments(routes *input.Objects) *table.Table[attachmentKey, *attachment] {
	return table.Derive(routes, routes.Name()+"/attachments", compareAttachment, sameAttachment,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(attachmentKey, *attachment)) {
			done := map[listenerKey]bool{} // several references may name one listener
			for i, ref := range o.Parents() {
				for _, a := range m.attach(r, o, index("spec.parentRefs", i), ref) {
					if at := a.listener.key(); !done[at] {
						done[at] = true
						emit(attachmentKey{k, at}, a)
					}
				}
			}
		})
}

// declareRoutes attaches routes of a kind to listeners, and makes a VirtualService of each pair.
func (m *maker) declareRoutes(routes *input.Objects) (*table.Table[attachmentKey, *attachment], *input.Objects) {
	attachments := m.declareAttachments(routes)
	// This table notes the mistakes of a route once. The tables above have rows for each of its listeners.
	table.Derive(routes, routes.Name()+"/checks", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			b := builder{maker: m, r: r, route: o, consumer: parents.OnlyConsumer(o), note: func(p mesh.Problem) { r.Note(p) }}
			b.build(&networking.VirtualService{})
		})
	keep := func(_ *table.Reader, a *attachment) []mesh.Host { return a.hosts }
	if routes == m.in.TLSRoutes {
		keep = declareRivals(attachments)
	}
	return attachments, table.Derive(attachments, routes.Name()+"/virtualservices", config.CompareKey, config.Same,
		func(r *table.Reader, _ attachmentKey, a *attachment, emit func(config.Key, *config.Object)) {
			if kept := keep(r, a); len(kept) > 0 {
				o := m.rules(r, &attachment{a.route, a.listener, kept})
				emit(o.Key, o)
			}
		})
}

// hostAt is a host of a listener.
type hostAt struct {
	listener listenerKey
	host     mesh.Host
}

// declareRivals finds routes of connections by their hosts. The result returns the hosts of an attachment that no other route of the
// listener has by a narrower hostname (TLSRouteSpec.hostnames). For routes of requests, config.Made.Within says the same.
func declareRivals(attachments *table.Table[attachmentKey, *attachment]) func(*table.Reader, *attachment) []mesh.Host {
	byHost := table.Group(attachments, "tlsroutes/attachments by host",
		func(a, b hostAt) int {
			return cmp.Or(compareListener(a.listener, b.listener), cmp.Compare(a.host, b.host))
		},
		func(k attachmentKey, a *attachment) (out []hostAt) {
			for _, h := range a.hosts {
				out = append(out, hostAt{k.listener, h})
			}
			return out
		})
	return func(r *table.Reader, a *attachment) (kept []mesh.Host) {
		for _, h := range a.hosts {
			rivals, _ := table.Get(r, byHost, hostAt{a.listener.key(), h})
			narrowest := parents.Within(h, a.route.Hostnames())
			wins := true
			for _, o := range rivals.All() {
				wins = wins && mesh.CompareWidth(parents.Within(h, o.route.Hostnames()), narrowest) >= 0
			}
			if wins {
				kept = append(kept, h)
			}
		}
		return kept
	}
}

// attach finds the listeners that one reference of a route is bound to. If there is none, it notes why.
func (m *maker) attach(r *table.Reader, o *config.Object, field string, ref gatewayv1.ParentReference) (out []*attachment) {
	owner, ours, wrong := m.parentOf(r, o, field, ref)
	if wrong != nil {
		r.Note(*wrong)
	}
	if !ours {
		return nil
	}
	f := finder{maker: m, r: r, route: o, ref: ref}
	rows, _ := table.Get(r, m.byOwner, owner)
	for _, l := range rows.All() {
		if a := f.try(l); a != nil {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		word, message, fix := f.why(owner)
		r.Note(o.Problem(field, word, mesh.Error, message, fix))
	}
	return out
}

// parentOf returns the Gateway or ListenerSet that a route refers to; false: it is not ours, or there is none. wrong is what the route's
// author may mend; nil: nothing.
func (m *maker) parentOf(r *table.Reader, o *config.Object, field string, ref gatewayv1.ParentReference) (
	key config.Key, ours bool, wrong *mesh.Problem,
) {
	problem := func(field, word string, severity mesh.Severity, message, fix string) *mesh.Problem {
		p := o.Problem(field, word, severity, message, fix)
		return &p
	}
	key = config.Key{Namespace: string(value(ref.Namespace, gatewayv1.Namespace(o.Namespace))), Name: string(ref.Name)}
	there := m.in.KubernetesGateways
	_, isService := parents.ServiceOf(o, ref)
	switch {
	case isService && !parents.TakesClients(o.Kind):
		return key, false, problem(field, code.NotYet, mesh.Info, o.Kind.Word()+"s of a service's clients have no effect yet", "")
	case isService:
		return key, false, nil // services.go has these
	case value(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName:
		return key, false, nil // of a kind that is not ours
	case value(ref.Kind, "Gateway") == "Gateway":
		key.Kind = config.KubernetesGateway
	case *ref.Kind == "ListenerSet":
		key.Kind, there = config.ListenerSet, m.in.ListenerSets
	default:
		return key, false, problem(field+".kind", code.UnknownKind, mesh.Error, "a route cannot be bound to a "+string(*ref.Kind),
			"write Gateway")
	}
	if !table.Has(r, there, key) {
		return key, false, problem(field, code.UnknownGateway, mesh.Error,
			fmt.Sprintf("there is no %s %s/%s", key.Kind.Word(), key.Namespace, key.Name),
			"create it, or name one that there is; a name without a namespace is one of the route's own")
	}
	if key.Kind == config.KubernetesGateway && !table.Has(r, m.gateways, key) {
		return key, false, nil // another controller's
	}
	return key, true, nil
}

// finder tries the listeners of one parent, and keeps why they do not take a route.
type finder struct {
	*maker
	r     *table.Reader
	route *config.Object
	ref   gatewayv1.ParentReference

	// some listener has the name and port; is served; takes the kind; the namespace; has a host of the route's
	named, distinct, kind, namespace, host bool
}

// try attaches the route to a listener; nil: the listener does not take it.
func (f *finder) try(l *listener) *attachment {
	if f.ref.SectionName != nil && *f.ref.SectionName != l.spec.Name || f.ref.Port != nil && *f.ref.Port != l.spec.Port {
		return nil
	}
	f.named = true
	if table.Has(f.r, f.conflicts, l.key()) {
		return nil
	}
	f.distinct = true
	if !parents.Takes(&l.spec, f.route.Kind) {
		return nil
	}
	f.kind = true
	from, selector := gatewayv1.NamespacesFromSame, (*labelSelector)(nil)
	if a := l.spec.AllowedRoutes; a != nil && a.Namespaces != nil {
		from, selector = value(a.Namespaces.From, from), a.Namespaces.Selector
	}
	if !f.admits(f.r, from, selector, l.owner.Namespace, f.route.Namespace) {
		return nil
	}
	f.namespace = true
	a := &attachment{route: f.route, listener: l}
	for _, h := range parents.Common(l.host(), f.route.Hostnames()) {
		f.host = true
		if !f.narrower(f.r, l, h) {
			a.hosts = append(a.hosts, h)
		}
	}
	if len(a.hosts) == 0 {
		return nil
	}
	return a
}

// why says why no listener of a parent takes the route.
func (f *finder) why(owner config.Key) (word, message, fix string) {
	parent := fmt.Sprintf("%s %s/%s", owner.Kind.Word(), owner.Namespace, owner.Name)
	switch {
	case !f.named && f.ref.SectionName != nil:
		return code.UnknownGateway, parent + " has no listener " + string(*f.ref.SectionName), "name one that it has"
	case !f.named && f.ref.Port != nil:
		return code.UnknownGateway, fmt.Sprintf("%s has no listener at port %d", parent, *f.ref.Port), "name a port that it has"
	case !f.named:
		return code.UnknownGateway, parent + " has no listener", "give it one"
	case !f.distinct:
		return code.HostNotServed, "another listener has the port or the hostname of each listener of " + parent + " that the route names",
			"name that listener, or let its author change the conflicting one"
	case !f.kind:
		return code.NotGranted, "no listener of " + parent + " takes " + f.route.Kind.Word() + "s",
			"name a listener of a fitting protocol, or let its author add the kind to allowedRoutes.kinds"
	case !f.namespace:
		return code.NotGranted, parent + " takes no routes of namespace " + f.route.Namespace,
			"let its author add the namespace to allowedRoutes.namespaces"
	case !f.host:
		return code.HostNotServed, "no listener of " + parent + " has a host of this route",
			"write a hostname that one of its listeners has"
	}
	return code.HostNotServed, "another listener of the port has each host of this route", "name that listener, or write other hostnames"
}

// rules makes the VirtualService of a route at a listener.
func (m *maker) rules(r *table.Reader, a *attachment) *config.Object {
	spec := &networking.VirtualService{
		Gateways: []string{a.listener.gateway.Namespace + "/" + a.listener.nameOf()}, ExportTo: []string{"*"},
	}
	names := map[mesh.Host]mesh.Host{}
	for _, h := range a.hosts {
		spec.Hosts = append(spec.Hosts, string(h))
		names[h] = parents.Within(h, a.route.Hostnames())
	}
	b := builder{maker: m, r: r, route: a.route, listener: &a.listener.spec, made: config.Made{
		ByPath: true, Within: names,
		Fields: []config.MadeOf{
			{Field: "spec", Of: "spec"}, {Field: "spec.hosts", Of: "spec.hostnames"}, {Field: "spec.gateways", Of: "spec.parentRefs"},
		},
	}}
	b.build(spec)
	parts := []string{a.route.Name, strings.ToLower(string(a.route.Kind)), a.listener.gateway.Namespace, a.listener.nameOf()}
	name := strings.Join(parts, "~")
	return config.NewMade(config.Key{Kind: config.VirtualService, Namespace: a.route.Namespace, Name: name}, a.route, spec, &b.made)
}
