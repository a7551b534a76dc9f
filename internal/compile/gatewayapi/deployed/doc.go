// Package deployed says which objects a cluster has for a Gateway of the Gateway API: the name, labels and ports of its Deployment and
// Service. Start reading at Of. All functions are pure.
//
// The specification is that of GatewayInfrastructure and of GatewaySpec.addresses; names are Istio's.
//
// It must not know which control plane serves a Gateway, nor who writes the objects (internal/writes/gateways).
package deployed
