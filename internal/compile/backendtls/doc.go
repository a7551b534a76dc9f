// Package backendtls finds how gateways connect to backends because of BackendTLSPolicies.
//
//	BackendTLSPolicies ─┬─► settings, a row each ◄── shapes of ConfigMaps
//	                    └─► by host ──► chosen (host): the policy in force for each port
//	Gateways ──► client certificates, by the label of their proxies
//
// A policy is for Services of its own namespace, that is for hosts NAME.NAMESPACE.svc.DOMAIN. It holds for all gateways, whichever objects
// lead them to the host, and for no sidecar. If a policy cannot be carried out, connections to its backends fail: they are never made in
// plaintext.
//
// The specification is the Gateway API's: the comments of BackendTLSPolicySpec and GatewayBackendTLS.
//
// The package must not know how a cluster is built, nor which rule has precedence over a policy (compile/cluster).
package backendtls
