package secret

import (
	"cmp"
	"fmt"
	"strings"

	"fairway/internal/compile/demand"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/table"
	"fairway/internal/xdstype"
)

// Key names a Secret, or a ConfigMap that holds authorities.
type Key struct {
	Namespace, Name string
	ConfigMap       bool
}

// CompareKey orders by namespace, name, kind.
func CompareKey(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.kind(), b.kind()))
}

func (k Key) String() string { return k.Namespace + "/" + k.Name }

func (k Key) kind() config.Kind {
	if k.ConfigMap {
		return config.ConfigMap
	}
	return config.Secret
}

// called is the object's kind and name, for problems.
func (k Key) called() string { return string(k.kind()) + " " + k.String() }

// Object is the key of the object itself, and KeyOf the way back.
func (k Key) Object() config.Key {
	return config.Key{Kind: k.kind(), Namespace: k.Namespace, Name: k.Name}
}

// KeyOf is the key of a Secret, or of a ConfigMap.
func KeyOf(k config.Key) Key { return Key{k.Namespace, k.Name, k.Kind == config.ConfigMap} }

// Shape is what a Secret or a ConfigMap can be used for. It is comparable.
type Shape struct {
	Certificate bool // it holds a certificate and its key
	Authorities bool // it holds authorities
	Registries  bool // it holds credentials for image registries
}

// Published is a table of resources, ready to send.
type Published = demand.Published

// Tables are the derived tables of this package.
type Tables struct {
	Shapes *table.Table[Key, Shape]
	// Read are the Secrets that the reader on demand has looked for. OnDemand has a row if there is such a reader. A Secret that exists is
	// staged before its row in Read.
	Read     *table.Input[Key, struct{}]
	OnDemand *table.Input[struct{}, struct{}]

	in      *input.Tables
	views   demand.Views
	byName  *table.Table[Key, table.Rows[Key, Shape]] // by kind and name alone
	holders *table.Table[Key, allowedHolders]
	secrets *table.Table[config.Key, *config.Object]
}

// Declare declares the tables that other features read; Publish comes after those features.
func Declare(s *table.Store, in *input.Tables, proxies *demand.Tables) *Tables {
	t := &Tables{in: in, secrets: in.Secrets}
	t.Read = table.NewInput(s, "secret/read", CompareKey, table.Same[struct{}])
	t.OnDemand = table.NewInput(s, "secret/on demand", func(struct{}, struct{}) int { return 0 }, table.Same[struct{}])
	t.views = demand.DeclareViews(proxies, "secret views", byHolder)
	t.Shapes = table.Derive(t.secrets, "secret/shapes", CompareKey, table.Same[Shape],
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(Key, Shape)) {
			emit(KeyOf(k), Shape{Certificate: o.Credential.Chain != nil, Authorities: o.Credential.CA != nil,
				Registries: o.Credential.Registries.PEM() != nil})
		})
	t.holders = table.Derive(t.secrets, "secret/holders", CompareKey, table.Same[allowedHolders],
		func(r *table.Reader, k config.Key, o *config.Object, emit func(Key, allowedHolders)) {
			written, _ := table.Get(r, in.Written.Table, k)
			emit(KeyOf(k), allowedHolders{o.Credential.Holders, o.Credential.Gateways, written.Stored.UID != ""})
		})
	t.byName = table.Group(t.Shapes, "secret/shapes by name", CompareKey, func(k Key, _ Shape) []Key {
		return []Key{{Name: k.Name, ConfigMap: k.ConfigMap}}
	})
	return t
}

// allowedHolders is what is known about the permitted holders of a Secret. It is comparable.
type allowedHolders struct {
	holders config.Holders
	shared  config.GatewaysOf
	stored  bool // it is from an API server, which checks who may write into a namespace
}

// Need says that resources of a layer name a secret.
type Need struct {
	Layer mesh.Layer
	Name  string // of the resource
}

// CompareNeed orders by layer, name.
func CompareNeed(a, b Need) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Name, b.Name))
}

// Grants are secrets of other namespaces that layers may have, because the owner of the Secret allows it; nil: none.
type Grants = table.Table[Need, struct{}]

// Publish derives the secrets that resources of a kind name, each once for every holder of the layer that may have it.
func (t *Tables) Publish(by Use, granted *Grants, users ...*Published) demand.Part {
	out := demand.Part{Type: xdstype.Secrets, Shelves: func(_ *table.Reader, _ mesh.ProxyID, p demand.Placement) (shelves []mesh.Shelf) {
		if by == ByListeners && p.Layer.Kind != mesh.GatewayLayer {
			return nil
		}
		for _, v := range byHolder.Of(p) {
			shelves = append(shelves, by.shelf(v))
		}
		return shelves
	}}
	for _, u := range users {
		out.Tables = append(out.Tables, t.publish(by, granted, u))
	}
	return out
}

func (t *Tables) publish(by Use, granted *Grants, users *Published) *Published {
	name := "secrets of " + users.Name()
	uses := table.Keys(users, name+"/used", CompareNeed, func(k mesh.ResourceKey, e *envoy.Encoded) []Need {
		var out []Need
		for _, s := range e.Secrets {
			out = append(out, Need{k.Shelf.Layer, s})
		}
		return out
	})
	return table.Derive(uses, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, u Need, _ struct{}, emit func(mesh.ResourceKey, *envoy.Encoded)) {
			foreign := granted != nil && table.Has(r, granted, u)
			k, e := t.build(r, u, foreign)
			if e == nil {
				return
			}
			allowed := t.allowed
			if foreign {
				allowed = t.allowedByGrant
			}
			for v := range t.views.In(r, u.Layer) {
				if allowed(r, k, holder.Of(v)) {
					emit(mesh.ResourceKey{Shelf: by.shelf(v), Name: u.Name}, e)
				}
			}
		})
}

// build makes a secret, and returns the key of the Secret that it is taken from; nil: there is none. foreign says that the Secret may be
// one of another namespace.
func (t *Tables) build(r *table.Reader, u Need, foreign bool) (Key, *envoy.Encoded) {
	credential, authority := tls.CredentialOf(u.Name)
	if all := apart(credential); authority && all != nil {
		return t.together(r, u, foreign, all)
	}
	k, bad := locate(u.Layer.Namespace, credential)
	if bad != (Missing{}) && !foreign {
		return k, nil
	}
	if authority {
		from, ok := t.authority(r, k)
		if !ok {
			return k, nil
		}
		c := t.get(r, from)
		return from, envoy.Encode(tls.Authorities(u.Name, c.CA, c.CRL))
	}
	if c := t.get(r, k); c != nil && c.Chain != nil {
		return k, envoy.Encode(tls.Certificate(u.Name, c.Chain, c.Key.PEM(), c.Staple))
	}
	return k, nil
}

// together makes a secret with the authorities of several ConfigMaps. If one of them has none, there is no secret: clients that it would
// let in must not be refused by the others.
func (t *Tables) together(r *table.Reader, u Need, foreign bool, maps []string) (first Key, e *envoy.Encoded) {
	var authorities, revoked []byte
	for i, name := range maps {
		k, bad := locate(u.Layer.Namespace, name)
		if i == 0 {
			first = k
		}
		if bad != (Missing{}) && !foreign {
			return first, nil
		}
		c := t.get(r, k)
		if c == nil || c.CA == nil {
			return first, nil
		}
		authorities, revoked = appendPEM(authorities, c.CA), appendPEM(revoked, c.CRL)
	}
	return first, envoy.Encode(tls.Authorities(u.Name, authorities, revoked))
}

// appendPEM appends blocks of PEM, each of which begins a line.
func appendPEM(to, blocks []byte) []byte {
	if len(to) > 0 && len(blocks) > 0 && to[len(to)-1] != '\n' {
		to = append(to, '\n')
	}
	return append(to, blocks...)
}

// allowed reports whether a holder may have a Secret. It may if the Secret's author named the service account. If the author named none, it
// may if MeshConfig names the account, or if the Secret is from an API server: users of Istio expect that every account of the namespace
// may have it. A holder that may not is noted on the Secret. A ConfigMap is not secret: all holders of its namespace may have it.
func (t *Tables) allowed(r *table.Reader, k Key, h demand.Holder) bool {
	if k.ConfigMap {
		return true
	}
	known, _ := table.Get(r, t.holders, k)
	said := known.holders
	if said.Has(h.Account) {
		return true
	}
	if h.Here {
		t.noteHolder(r, k, "a proxy that proves no identity, on the control plane's own machine,", string(config.AnyHolder))
		return false
	}
	if said == "" && (known.stored && h.Account != "" || t.in.TakesSecrets(r, k.Namespace, h.Account)) {
		return true
	}
	t.noteHolder(r, k, "a proxy of service account "+h.Account, strings.Trim(string(said)+","+h.Account, ","))
	return false
}

// allowedByGrant reports whether a holder may have a Secret of another namespace whose owner allows that the proxy's Gateway names it
// (ReferenceGrant). Every proxy of the Gateway that proved its identity may have it.
func (t *Tables) allowedByGrant(r *table.Reader, k Key, h demand.Holder) bool {
	if k.ConfigMap || h.Account != "" {
		return true
	}
	if known, _ := table.Get(r, t.holders, k); known.holders == config.AnyHolder {
		return true
	}
	t.noteHolder(r, k, "a proxy that proves no identity, on the control plane's own machine,", string(config.AnyHolder))
	return false
}

// MayHave reports whether a proxy of a namespace may have a Secret that an object of the Secret's own namespace names for it. In that
// namespace, allowed decides. For a proxy of another namespace, if the object holds there too because it is in the root namespace, the
// Secret's author must allow every holder, or the Secret is from an API server and names no holder. A proxy that proved no identity may
// have none, except on the control plane's own machine.
func (t *Tables) MayHave(r *table.Reader, k Key, namespace string, h demand.Holder) bool {
	if h == (demand.Holder{}) {
		return false
	}
	if namespace == k.Namespace {
		return t.allowed(r, k, h)
	}
	known, _ := table.Get(r, t.holders, k)
	if known.holders == config.AnyHolder || known.holders == "" && known.stored && h.Account != "" {
		return true
	}
	t.noteHolder(r, k, "a proxy of namespace "+namespace, string(config.AnyHolder))
	return false
}

// Registries returns a Secret's credentials for image registries, in the form of Docker's config.json. The caller may pass them only to its
// proxy's agent.
func (t *Tables) Registries(r *table.Reader, k Key) ([]byte, Missing) {
	shape, ok := table.Get(r, t.Shapes, k)
	switch {
	case !ok:
		why := t.absent(r, k)
		if !why.Unread {
			why.Fix = "add it, of type kubernetes.io/dockerconfigjson, to the namespace of the object that names it"
		}
		return nil, why
	case !shape.Registries:
		return nil, missing(fmt.Sprintf("Secret %s holds no credentials of registries", k),
			"make it of type kubernetes.io/dockerconfigjson, with .dockerconfigjson")
	}
	if c := t.get(r, k); c != nil {
		return c.Registries.PEM(), Missing{}
	}
	return nil, t.absent(r, k)
}

func (t *Tables) noteHolder(r *table.Reader, k Key, who, want string) {
	o, ok := table.Get(r, t.secrets, k.Object())
	if !ok {
		return
	}
	r.Note(mesh.Problem{Object: o.Ref, Field: "metadata.annotations", Code: code.HolderNotNamed, Severity: mesh.Warning,
		Message: who + " needs this Secret and does not get it, because no setting allows it",
		Fix:     fmt.Sprintf("if it may, annotate the Secret with %s: %q, or name it in MeshConfig", config.HoldersAnnotation, want)})
}

func (t *Tables) get(r *table.Reader, k Key) *config.Credential {
	o, ok := table.Get(r, t.secrets, k.Object())
	if !ok {
		return nil
	}
	return o.Credential
}
