package input

import (
	"fairway/internal/config"
	"fairway/internal/table"
)

// This file says which namespaces' rules count for other namespaces. Rules of the root namespace always do.

// Strict reports whether rules of other namespaces count only if the owner agrees (config.OwnershipKey).
func (t *Tables) Strict(r *table.Reader) bool {
	e, ok := table.Get(r, t.extended, config.OwnershipKey)
	return ok && e.strict
}

// ScopesGateways reports whether Gateways select only gateways of their own namespace: in strict mode, or if
// PILOT_SCOPE_GATEWAY_TO_NAMESPACE is set.
func (t *Tables) ScopesGateways(r *table.Reader) bool { return t.opts.ScopeGateways || t.Strict(r) }

// SharesGateways reports whether Gateways of namespace own may use files and Secrets of a gateway in namespace of.
func (t *Tables) SharesGateways(r *table.Reader, own, of string) bool {
	return own == of || own == t.RootNamespace(r) || t.listsNamespace(r, config.GatewayNamespacesKey, own)
}

// LeadsNetworks reports whether Services of a namespace may be gateways of networks: those of the root namespace, of the
// control plane's, of istio-system, where Istio's documentation puts them, and of the namespaces of config.NetworkGatewayNamespacesKey.
func (t *Tables) LeadsNetworks(r *table.Reader, namespace string) bool {
	return namespace == usualRoot || namespace == t.opts.RootNamespace || namespace == t.RootNamespace(r) ||
		t.listsNamespace(r, config.NetworkGatewayNamespacesKey, namespace)
}
