package gatewayapi

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/grants"
	"fairway/internal/compile/gatewayapi/parents"
	"fairway/internal/compile/gatewayapi/verdict"
	"fairway/internal/compile/inference/pool"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
)

// This file leads routes to InferencePools (inference.networking.k8s.io), and says in their statuses what becomes of them.

// pool returns the destination of a reference to an InferencePool, and the picker of the pool. The reference's port has no effect: a pool
// has its own. The other parameters are those of destination.
func (b *builder) pool(field, at string, ref gatewayv1.BackendObjectReference, broken bool) (*networking.Destination, mesh.Picker) {
	namespace := string(value(ref.Namespace, gatewayv1.Namespace(b.route.Namespace)))
	b.made.Fields = append(b.made.Fields, config.MadeOf{Field: at, Of: field, Foreign: true}) // its problems are noted here
	unreachable := &networking.Destination{Host: nowhere}
	if parents.HasClients(b.route) {
		b.problem(field+".kind", code.NotSupported, "only gateways send requests to an InferencePool: those of a service's clients to it "+
			"are answered 500", "bind a route of its own to a Gateway, and name a Service here")
	}
	if b.clients {
		return unreachable, mesh.Picker{}
	}
	o, ok := table.Get(b.r, b.in.InferencePools, config.Key{Kind: config.InferencePool, Namespace: namespace, Name: string(ref.Name)})
	granted := b.grants.Allow(b.r, grants.Reference{
		FromKind: b.route.Kind.Word(), From: b.route.Namespace, ToGroup: config.InferencePool.Group(), ToKind: string(config.InferencePool),
		To: namespace, Name: string(ref.Name),
	})
	switch {
	case !granted: // whether there is one is not for other namespaces to know
		b.problem(field, code.NotGranted, fmt.Sprintf(
			"no ReferenceGrant in namespace %s lets %ss of namespace %s name InferencePool %s: %s",
			namespace, b.route.Kind.Word(), b.route.Namespace, ref.Name, b.lost(field)), "let the pool's owner write one")
	case !ok:
		b.problem(field+".name", code.UnknownHost, fmt.Sprintf("there is no InferencePool %s/%s: %s", namespace, ref.Name, b.lost(field)),
			"create it, or name one that there is; a name without a namespace is one of the route's own")
	}
	if !granted || !ok || broken {
		return unreachable, mesh.Picker{}
	}
	return &networking.Destination{Host: string(pool.Host(namespace, string(ref.Name)))}, pool.Picker(o, b.in.DomainSuffix())
}

// mostParents is how many parents the API lets a pool's status have (InferencePoolStatus.parents).
const mostParents = 32

// Words of a pool's status that the Gateway API does not have (InferencePoolConditionType, InferencePoolReason). Accepted and ResolvedRefs
// are those of routes.
const invalidExtension gatewayv1.RouteConditionReason = "InvalidExtensionRef"

// ofPool is the status of a pool: it has a part for each Gateway that is ours and has routes to the pool. nil: none has.
func (j judge) ofPool(r *table.Reader, o *config.Object) *verdict.Status {
	accepted := verdict.Condition(gatewayv1.RouteConditionAccepted, true, gatewayv1.RouteReasonAccepted, "")
	refs := verdict.Condition(gatewayv1.RouteConditionResolvedRefs, true, gatewayv1.RouteReasonResolvedRefs, "")
	if p, is := j.under(r, o.Key, pool.PickerField, anything); is {
		refs = verdict.Condition(gatewayv1.RouteConditionResolvedRefs, false, invalidExtension, p.Message)
	}
	out := &verdict.Status{}
	to, _ := table.Get(r, j.toPools, pool.Host(o.Namespace, o.Name))
	for l := range to.All() {
		controller := j.controllerAt(r, l.Gateway)
		if controller == "" || len(out.Parents) == mostParents {
			continue
		}
		out.Parents = append(out.Parents, gatewayv1.RouteParentStatus{
			ParentRef: refTo(l.Gateway), ControllerName: controller, Conditions: []metav1.Condition{accepted, refs},
		})
	}
	if out.Parents == nil {
		return nil
	}
	return out
}
