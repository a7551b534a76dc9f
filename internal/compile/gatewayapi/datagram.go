package gatewayapi

import (
	"cmp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// This file reads UDPRoutes. No object of Istio's says where datagrams go, so they have tables of their own, which compile/datagram reads.

// Backend is where a UDPRoute sends a share of the datagrams.
type Backend struct {
	Field  string    // of the route
	Host   mesh.Host // empty: the reference is wrong, and a problem says so; its share is dropped
	Port   uint32
	Weight uint32
}

// Datagrams are the backends of a UDPRoute.
type Datagrams struct {
	Route    *config.Object
	Backends []Backend
}

func sameDatagrams(a, b *Datagrams) bool {
	return config.Same(a.Route, b.Route) && slices.Equal(a.Backends, b.Backends)
}

// BoundKey names a UDPRoute at a listener.
type BoundKey struct {
	Gateway config.Key // the Gateway that is made of the listener
	Route   config.Key
}

func compareBound(a, b BoundKey) int {
	return cmp.Or(config.CompareKey(a.Gateway, b.Gateway), config.CompareKey(a.Route, b.Route))
}

// declareDatagrams attaches UDPRoutes to listeners, and finds their backends.
func (t *Tables) declareDatagrams() *table.Table[attachmentKey, *attachment] {
	m, routes := &t.maker, t.in.UDPRoutes
	attachments := m.declareAttachments(routes)
	t.Datagrams = table.Derive(routes, routes.Name()+"/backends", config.CompareKey, sameDatagrams,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *Datagrams)) {
			b := builder{maker: m, r: r, route: o, note: func(p mesh.Problem) { r.Note(p) }}
			emit(k, &Datagrams{Route: o, Backends: b.shares(native[gatewayv1.UDPRouteSpec](o))})
		})
	t.Bound = table.Derive(attachments, routes.Name()+"/bound", compareBound, config.Same,
		func(_ *table.Reader, _ attachmentKey, a *attachment, emit func(BoundKey, *config.Object)) {
			emit(BoundKey{a.listener.madeKey(), a.route.Key}, a.route)
		})
	return attachments
}

// shares reads the only rule that the API lets a UDPRoute have.
func (b *builder) shares(spec *gatewayv1.UDPRouteSpec) (out []Backend) {
	if len(spec.Rules) == 0 {
		return nil
	}
	const rule = "spec.rules[0].backendRefs"
	for i, ref := range spec.Rules[0].BackendRefs {
		field := index(rule, i)
		to := b.destination(field, "", ref.BackendObjectReference, false)
		backend := Backend{Field: field, Port: to.GetPort().GetNumber(), Weight: uint32(max(value(ref.Weight, 1), 0))}
		if to.GetHost() != nowhere {
			backend.Host = mesh.FullHost(to.GetHost(), b.route.Namespace, b.in.DomainSuffix())
		}
		out = append(out, backend)
	}
	return out
}
