package secret

import (
	"cmp"
	"fmt"
	"strings"

	"fairway/internal/config"
	"fairway/internal/envoy/tls"
	"fairway/internal/table"
)

// suffix ends the name of the Secret that holds only a credential's authorities, if they are in a Secret of their own.
const suffix = "-cacert"

// Missing is the reason why a secret that is named cannot be used. It is comparable; the zero Missing means that it can.
type Missing struct {
	Message, Fix string
	Unread       bool // it has not been looked for yet: the version before stays
}

// Error is Message.
func (m Missing) Error() string { return m.Message }

// qualify returns the key of a name as seen from a namespace; "namespace/name" is absolute.
func qualify(namespace, name string) Key {
	if ns, short, ok := strings.Cut(name, "/"); ok {
		return Key{Namespace: ns, Name: short}
	}
	return Key{Namespace: namespace, Name: name}
}

// separator is between the ConfigMaps of one credential. No object has it in its name.
const separator = ","

// Together returns the credential that stands for ConfigMaps (tls.InConfigMap) whose authorities are all trusted, as one resource: Envoy
// takes the authorities of a listener from one. A single ConfigMap stays as it is.
func Together(maps []string) string { return strings.Join(maps, separator) }

// apart returns the ConfigMaps that a credential of Together stands for; nil: it is another one.
func apart(credential string) []string {
	all := strings.Split(credential, separator)
	for _, name := range all {
		if _, ok := tls.ConfigMap(name); !ok || len(all) == 1 {
			return nil
		}
	}
	return all
}

// home returns the namespace that must have one ConfigMap of a credential; namespace is that of the credential, and empty if several may.
func home(namespace, name string) string { return cmp.Or(namespace, NamespaceOf(name)) }

// NamespaceOf returns the namespace of a credential that is written with one; empty: it is not, or it stands for several ConfigMaps.
func NamespaceOf(credential string) string {
	if apart(credential) != nil {
		return ""
	}
	name, inMap := tls.ConfigMap(credential)
	if !inMap {
		name, _ = tls.Credential(credential)
	}
	return qualify("", name).Namespace
}

// Certificate looks for the certificate of a credential, as a proxy of the namespace would get it.
func (t *Tables) Certificate(r *table.Reader, namespace, credential string) Missing {
	k, bad := locate(namespace, credential)
	if bad != (Missing{}) {
		return bad
	}
	if k.ConfigMap {
		return missing("a ConfigMap holds no certificate with its key", "name a Secret of type kubernetes.io/tls")
	}
	s, ok := table.Get(r, t.Shapes, k)
	switch {
	case !ok:
		return t.absent(r, k)
	case strings.HasSuffix(k.Name, suffix):
		return missing("the name of a Secret with a certificate must not end in "+suffix, "give it another name")
	case !s.Certificate:
		return missing(fmt.Sprintf("Secret %s holds no certificate", k), "give it tls.crt and tls.key")
	}
	return Missing{}
}

// Shared explains why Gateways of another namespace may not use the certificate of a credential for proxies of a namespace: its Secret
// names neither service accounts nor the Gateways' namespace. A Secret of an API server that names nothing is for all Gateways, unless
// the mesh is strict. The zero Missing: they may, or there is no such Secret.
func (t *Tables) Shared(r *table.Reader, namespace, credential, gateways string) Missing {
	k, bad := locate(namespace, credential)
	if bad != (Missing{}) {
		return Missing{}
	}
	known, ok := table.Get(r, t.holders, k)
	if !ok || known.holders != "" || known.shared.Has(gateways) || t.in.SharesGateways(r, gateways, namespace) {
		return Missing{}
	}
	if known.stored && known.shared == "" && !t.in.Strict(r) {
		return Missing{} // as with Istio: its users keep the certificates of all namespaces' Gateways beside the gateway
	}
	return missing(
		fmt.Sprintf("Secret %s is not for Gateways of namespace %s", k, gateways),
		fmt.Sprintf("annotate the Secret with %s: %q; or let the mesh's administrator add %s to defaultConfig.proxyMetadata.%s",
			config.GatewaysAnnotation, gateways, gateways, config.GatewayNamespacesKey),
	)
}

// Authorities looks for the authorities of a credential.
func (t *Tables) Authorities(r *table.Reader, namespace, credential string) Missing {
	k, bad := locate(namespace, credential)
	if bad != (Missing{}) {
		return bad
	}
	return t.believes(r, k)
}

// Trusted looks for the authorities that ServerTLSSettings.ca_cert_credential_name names, "the secret or the configmap". Secrets of the
// name have precedence, as with Istio, which takes a name without a scheme for a Secret's. If they hold no authorities, the ConfigMap of
// that name counts. Trusted returns the credential under which they are found. If a credential stands for several ConfigMaps, all of them
// must hold authorities; each is one of the namespace, or, if namespace is empty, of its own.
func (t *Tables) Trusted(r *table.Reader, namespace, credential string) (found string, lacks Missing) {
	if all := apart(credential); all != nil {
		for _, name := range all {
			if _, why := t.Trusted(r, home(namespace, name), name); why != (Missing{}) {
				return credential, why
			}
		}
		return credential, Missing{}
	}
	k, bad := locate(namespace, credential)
	if bad != (Missing{}) {
		return credential, bad
	}
	why := t.believes(r, k)
	if why == (Missing{}) || why.Unread || k.ConfigMap {
		return credential, why
	}
	k.ConfigMap = true
	switch other := t.believes(r, k); {
	case other == (Missing{}):
		return tls.InConfigMap(k.Namespace, k.Name), Missing{}
	case other.Unread:
		return credential, other
	}
	own, extra := places(Key{Namespace: k.Namespace, Name: k.Name})
	return credential, missing(
		fmt.Sprintf("none of %s, %s and %s holds the authorities that peers are verified by", own.called(), extra.called(), k.called()),
		"give one of them ca.crt, in namespace "+k.Namespace+", which the proxy runs in")
}

// believes returns why an object, or both Secrets that a name may mean, hold no authorities.
func (t *Tables) believes(r *table.Reader, k Key) Missing {
	if _, ok := t.authority(r, k); ok {
		return Missing{}
	}
	base, extra := places(k)
	for _, at := range [...]Key{base, extra} {
		if !table.Has(r, t.Shapes, at) && t.unread(r, at) {
			return notRead(at)
		}
	}
	if !table.Has(r, t.Shapes, base) && !table.Has(r, t.Shapes, extra) {
		return t.absent(r, k)
	}
	if k.ConfigMap {
		return missing(k.called()+" does not hold the authorities that peers are verified by", "give it ca.crt")
	}
	return missing(fmt.Sprintf("neither Secret %s nor Secret %s holds the authorities that peers are verified by", base, extra),
		"give one of them ca.crt")
}

// places returns the objects that may hold the authorities of a credential: its own Secret, and the one that is only for authorities; for a
// ConfigMap, only itself.
func places(k Key) (own, extra Key) {
	if k.ConfigMap {
		return k, k
	}
	name := strings.TrimSuffix(k.Name, suffix)
	return Key{Namespace: k.Namespace, Name: name}, Key{Namespace: k.Namespace, Name: name + suffix}
}

func missing(message, fix string) Missing { return Missing{Message: message, Fix: fix} }

func notRead(k Key) Missing {
	return Missing{
		Message: k.called() + " has not been read yet",
		Fix:     "nothing needs to be done unless that stays so: then the API server does not answer",
		Unread:  true,
	}
}

// authority finds the object that a credential's authorities are taken from. The one that is only for them has precedence.
func (t *Tables) authority(r *table.Reader, k Key) (Key, bool) {
	own, extra := places(k)
	for _, at := range [...]Key{extra, own} {
		if s, ok := table.Get(r, t.Shapes, at); ok && s.Authorities {
			return at, true
		}
	}
	return Key{}, false
}

// locate parses a name as users write it; a proxy gets only objects of its own namespace.
func locate(namespace, credential string) (Key, Missing) {
	name, inMap := tls.ConfigMap(credential)
	if !inMap {
		var ok bool
		if name, ok = tls.Credential(credential); !ok {
			return Key{}, missing(fmt.Sprintf("%q is not the name of a Secret", credential), "write the Secret's name alone")
		}
	}
	k := qualify(namespace, name)
	k.ConfigMap = inMap
	if k.Namespace != namespace {
		return k, missing(fmt.Sprintf("proxies of namespace %s get no %s of namespace %s", namespace, k.kind(), k.Namespace),
			"put one into namespace "+namespace)
	}
	return k, Missing{}
}

// absent returns the problem that there is no such object, and names another namespace if that has one.
func (t *Tables) absent(r *table.Reader, k Key) Missing {
	if t.unread(r, k) {
		return notRead(k)
	}
	m := missing("there is no "+k.called(),
		"add it, of type kubernetes.io/tls with tls.crt and tls.key, to the namespace that the proxy runs in")
	if k.ConfigMap {
		m.Fix = "add it, with ca.crt, to namespace " + k.Namespace
	}
	rows, _ := table.Get(r, t.byName, Key{Name: k.Name, ConfigMap: k.ConfigMap})
	if other, _, ok := rows.First(); ok {
		m.Fix = fmt.Sprintf("there is one in namespace %s: it must be in that of the proxy, %s", other.Namespace, k.Namespace)
	}
	return m
}

// Parameters returns what a ConfigMap holds for the deployment of Gateways, and its other keys.
func (t *Tables) Parameters(r *table.Reader, k Key) (texts map[string]string, others []string, lacks Missing) {
	c := t.get(r, k)
	if c == nil {
		why := t.absent(r, k)
		if !why.Unread {
			why.Fix = "create it, or leave the reference out"
		}
		return nil, nil, why
	}
	return c.Parameters, c.OtherKeys, Missing{}
}
