package gatewayapi

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/parents"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// listenerKey names a listener by the Gateway or ListenerSet that has it in its list.
type listenerKey struct {
	owner config.Key
	name  string
}

func compareListener(a, b listenerKey) int {
	return cmp.Or(config.CompareKey(a.owner, b.owner), cmp.Compare(a.name, b.name))
}

// listener is one that a Gateway has, in its own list or by a ListenerSet.
type listener struct {
	owner   *config.Object // the Gateway or ListenerSet
	gateway config.Key
	index   int // in the owner's list
	spec    gatewayv1.Listener
}

func sameListener(a, b *listener) bool {
	return a.gateway == b.gateway && a.index == b.index && a.owner.Key == b.owner.Key && a.owner.Created == b.owner.Created &&
		a.owner.Ref == b.owner.Ref && equality.Semantic.DeepEqual(&a.spec, &b.spec)
}

// key is the listener's own.
func (l *listener) key() listenerKey { return listenerKey{l.owner.Key, string(l.spec.Name)} }

// field is the path of the listener in its owner.
func (l *listener) field() string { return index("spec.listeners", l.index) }

// host returns the names that the listener is for; "*": all.
func (l *listener) host() mesh.Host { return parents.HostOf(string(value(l.spec.Hostname, ""))) }

// ends reports whether a listener ends TLS with certificates of its own (ListenerTLSConfig.mode).
func ends(_ listenerKey, l *listener) bool {
	switch l.spec.Protocol {
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		return l.spec.TLS != nil && value(l.spec.TLS.Mode, gatewayv1.TLSModeTerminate) == gatewayv1.TLSModeTerminate
	}
	return false
}

// portKey names a port of a Gateway.
type portKey struct {
	gateway config.Key
	port    int32
}

func comparePort(a, b portKey) int {
	return cmp.Or(config.CompareKey(a.gateway, b.gateway), cmp.Compare(a.port, b.port))
}

// listenersOf returns the listeners in the list of a Gateway or a ListenerSet. gateway is the Gateway that has them.
func listenersOf(owner *config.Object, gateway config.Key) (out []*listener) {
	switch spec := owner.Native.(type) {
	case *gatewayv1.GatewaySpec:
		for i, l := range spec.Listeners {
			out = append(out, &listener{owner, gateway, i, l})
		}
	case *gatewayv1.ListenerSetSpec:
		for i, l := range spec.Listeners {
			out = append(out, &listener{owner, gateway, i, gatewayv1.Listener(l)})
		}
	}
	return out
}

// declareListeners takes Gateways and ListenerSets apart.
func (m *maker) declareListeners() {
	own := table.Derive(m.gateways, "gatewayapi/own listeners", compareListener, sameListener,
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(listenerKey, *listener)) {
			for _, l := range listenersOf(o, k) {
				emit(l.key(), l)
			}
		})
	more := table.Derive(m.in.ListenerSets, "gatewayapi/more listeners", compareListener, sameListener,
		func(r *table.Reader, _ config.Key, o *config.Object, emit func(listenerKey, *listener)) {
			gateway, ok, wrong := m.parent(r, o)
			if wrong != nil {
				r.Note(*wrong)
			}
			if !ok {
				return
			}
			for _, l := range listenersOf(o, gateway) {
				emit(l.key(), l)
			}
		})
	all := table.Union("gatewayapi/written listeners", compareListener, sameListener, nil, table.Whole(own), table.Whole(more))
	m.byOwner = table.Group(all, "gatewayapi/listeners by owner", config.CompareKey,
		func(k listenerKey, _ *listener) []config.Key { return []config.Key{k.owner} })
	m.byPort = table.Group(all, "gatewayapi/listeners by port", comparePort,
		func(_ listenerKey, l *listener) []portKey { return []portKey{{l.gateway, l.spec.Port}} })
	m.declareConflicts()
	m.listeners = table.Derive(all, "gatewayapi/listeners", compareListener, sameListener,
		func(r *table.Reader, k listenerKey, l *listener, emit func(listenerKey, *listener)) {
			if c, lost := table.Get(r, m.conflicts, k); lost {
				l.noteConflict(r, c)
				return
			}
			emit(k, l)
		})
}

// parent returns the Gateway that a ListenerSet adds its listeners to; false: the Gateway is not ours, or does not let it
// (GatewaySpec.allowedListeners). wrong is what the set's author may mend; nil: nothing.
func (m *maker) parent(r *table.Reader, set *config.Object) (key config.Key, ok bool, wrong *mesh.Problem) {
	ref := native[gatewayv1.ListenerSetSpec](set).ParentRef
	if value(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName || value(ref.Kind, "Gateway") != "Gateway" {
		return config.Key{}, false, nil // of a kind that is not ours
	}
	problem := func(word, message, fix string) *mesh.Problem {
		p := set.Problem("spec.parentRef", word, mesh.Error, message, fix)
		return &p
	}
	key = config.Key{
		Kind: config.KubernetesGateway, Namespace: string(value(ref.Namespace, gatewayv1.Namespace(set.Namespace))), Name: string(ref.Name),
	}
	if !table.Has(r, m.in.KubernetesGateways, key) {
		return key, false, problem(code.UnknownGateway, "there is no Gateway "+key.Namespace+"/"+key.Name, "create it, or name another")
	}
	gateway, ours := table.Get(r, m.gateways, key)
	if !ours {
		return key, false, nil // another controller's
	}
	allowed := native[gatewayv1.GatewaySpec](gateway).AllowedListeners
	from, selector := gatewayv1.NamespacesFromNone, (*labelSelector)(nil)
	if allowed != nil && allowed.Namespaces != nil {
		from, selector = value(allowed.Namespaces.From, from), allowed.Namespaces.Selector
	}
	if !m.admits(r, from, selector, key.Namespace, set.Namespace) {
		return key, false, problem(code.NotGranted,
			"Gateway "+key.Namespace+"/"+key.Name+" takes no listeners of namespace "+set.Namespace,
			"let its author add the namespace to spec.allowedListeners")
	}
	return key, true, nil
}

// narrower reports whether another listener of the same port takes the requests for a host: its hostname covers the host, and is more
// specific than the listener's own (listener isolation).
func (m *maker) narrower(r *table.Reader, l *listener, host mesh.Host) bool {
	rows, _ := table.Get(r, m.byPort, portKey{l.gateway, l.spec.Port})
	for k, other := range rows.All() {
		theirs := other.host()
		if k != l.key() && theirs != l.host() && theirs.Matches(host) && l.host().Matches(theirs) && !table.Has(r, m.conflicts, k) {
			return true
		}
	}
	return false
}
