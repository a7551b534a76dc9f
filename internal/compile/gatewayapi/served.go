package gatewayapi

import (
	"cmp"
	"slices"

	"fairway/internal/compile/gatewayapi/parameters"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// DeclareServed declares Here, Elsewhere and Deployments. served reports whether some proxy that is connected here serves a Gateway that is
// made. It returns the Secrets and ConfigMaps of Gateways whose proxies are all connected to other control planes: this one does not send
// them, and says in statuses whether they exist. It also returns the ConfigMaps with parameters of deployment.
func (t *Tables) DeclareServed(
	s *table.Store, secrets *secret.Tables, served func(*table.Reader, config.Key) bool,
) *table.Table[secret.Key, struct{}] {
	t.secrets = secrets
	var named *table.Table[secret.Key, struct{}]
	t.parameters, named = parameters.Declare(t.in, t.gateways, secrets)
	t.declareDeployments()
	t.Here = table.Derive(t.gateways, "gatewayapi/served here", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(config.Key, struct{})) {
			// All listeners have the same proxies, if they are served at all.
			if slices.ContainsFunc(listenersOf(o, k), func(l *listener) bool { return served(r, l.madeKey()) }) {
				emit(k, struct{}{})
			}
		})
	t.Elsewhere = table.NewInput(s, "gatewayapi/served elsewhere", cmp.Compare[string], slices.Equal[[]config.Key])
	t.elsewhere = table.Keys(t.Elsewhere.Table, "gatewayapi/served by others", config.CompareKey,
		func(_ string, all []config.Key) []config.Key { return all })
	refs := table.DeriveWhere(t.listeners, ends, "gatewayapi/secrets served elsewhere", compareListener, slices.Equal[[]secret.Key],
		func(r *table.Reader, k listenerKey, l *listener, emit func(listenerKey, []secret.Key)) {
			if !table.Has(r, t.elsewhere, l.gateway) || table.Has(r, t.Here, l.gateway) {
				return
			}
			if all := t.secretsOf(r, l); len(all) > 0 {
				emit(k, all)
			}
		})
	of := table.Keys(refs, "gatewayapi/wanted secrets", secret.CompareKey,
		func(_ listenerKey, all []secret.Key) []secret.Key { return all })
	return table.Union("gatewayapi/wanted", secret.CompareKey, table.Same[struct{}], nil, table.Whole(of), table.Whole(named))
}

// secretsOf lists the Secrets and ConfigMaps that a listener refers to, and may.
func (m *maker) secretsOf(r *table.Reader, l *listener) (out []secret.Key) {
	for i, ref := range l.spec.TLS.CertificateRefs {
		if name, wrong := m.certificate(r, l, index(l.field()+certificates, i), ref); wrong == nil {
			for _, a := range secret.ForCertificate(mesh.Layer{}, homeOf(l, name), name) {
				out = append(out, a.Secret)
			}
		}
	}
	if v := m.verification(r, l); v != nil {
		for i := range v.spec.CACertificateRefs {
			if name, wrong := m.authority(r, v, i); wrong == nil {
				for _, a := range secret.ForTrusted(mesh.Layer{}, homeOf(l, name), name) {
					out = append(out, a.Secret)
				}
			}
		}
	}
	return out
}

// homeOf returns the namespace of the object that a credential of a listener names.
func homeOf(l *listener, credential string) string {
	return cmp.Or(secret.NamespaceOf(credential), l.gateway.Namespace)
}

// lackingCertificate says which certificate of a listener cannot be used; empty: none. A Secret that has not been looked for yet is usable.
func (j judge) lackingCertificate(r *table.Reader, l *listener) string {
	if !ends(l.key(), l) {
		return ""
	}
	for i, ref := range l.spec.TLS.CertificateRefs {
		name, wrong := j.certificate(r, l, index(l.field()+certificates, i), ref)
		if wrong != nil {
			continue // a problem says so
		}
		if why := j.secrets.Certificate(r, homeOf(l, name), name); why != (secret.Missing{}) && !why.Unread {
			return why.Message
		}
	}
	return ""
}
