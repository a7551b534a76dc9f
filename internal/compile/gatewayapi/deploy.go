package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/internal/compile/gatewayapi/deployed"
	"fairway/internal/compile/gatewayapi/owners"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// ClassName is the label that names the class of a Gateway's objects.
const ClassName = "gateway.networking.k8s.io/gateway-class-name"

// declareDeployments declares the objects of Gateways that an API server has. While the parameters of a Gateway are wrong, or not read yet,
// it has no row: its objects stay as they are.
func (t *Tables) declareDeployments() {
	m := &t.maker
	byGateway := table.Group(m.listeners, "gatewayapi/listeners by gateway", config.CompareKey,
		func(_ listenerKey, l *listener) []config.Key { return []config.Key{l.gateway} })
	t.Deployments = table.Derive(m.in.KubernetesGateways, "gatewayapi/deployments", config.CompareKey, deployed.Same,
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, *deployed.Deployment)) {
			spec := native[gatewayv1.GatewaySpec](o)
			controller := m.Controller(r, o)
			written, _ := table.Get(r, m.in.Written.Table, k) // only whether an API server has it
			switch {
			case written.Stored.UID == "" || controller == "":
				return // a class that is not known may only be late
			case !m.Mine(r, o):
				return // its objects belong to the control plane of another revision
			case !owners.IsOurs(controller) || deployed.ByHand(spec):
				emit(k, &deployed.Deployment{Unwanted: true, Revised: m.Revised(r, o)})
				return
			case !m.in.DeploysGateways():
				return
			}
			parameters, wrong, unread := m.parameters.Of(r, o)
			if wrong != "" || unread {
				return
			}
			rows, _ := table.Get(r, byGateway, k)
			listeners := func(yield func(*gatewayv1.Listener) bool) {
				for _, l := range rows.All() {
					if !yield(&l.spec) {
						return
					}
				}
			}
			d := deployed.Of(o, listeners, func(p mesh.Problem) { r.Note(p) })
			d.Labels[GatewayName], d.Labels[ClassName] = shortName(o.Name), shortName(string(spec.GatewayClassName))
			d.Revised = m.Revised(r, o)
			d.Overlay(parameters)
			emit(k, d)
		})
}
