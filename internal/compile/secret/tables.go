package secret

import (
	"cmp"
	"strings"

	"fairway/internal/compile/input"
	"fairway/internal/compile/scope"
	"fairway/internal/config"
	"fairway/internal/envoy"
	"fairway/internal/envoy/tls"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Key names a Secret.
type Key struct{ Namespace, Name string }

func compareKey(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Shape is what a Secret can be used for. It is comparable.
type Shape struct {
	Certificate bool // it holds a certificate and its key
	Authorities bool // it holds whom to believe
}

// Published is a table of resources, ready to send.
type Published = table.Table[mesh.ResourceKey, *envoy.Encoded]

// Tables are the derived tables of this package.
type Tables struct {
	Shapes *table.Table[Key, Shape]

	in      *input.Tables
	byName  *table.Table[string, table.Rows[Key, Shape]]
	secrets *table.Table[config.Key, *config.Object]
}

// Declare declares what others ask; Publish comes after those.
func Declare(in *input.Tables) *Tables {
	t := &Tables{in: in, secrets: in.Secrets.Table}
	t.Shapes = table.Derive(t.secrets, "secret/shapes", compareKey, func(a, b Shape) bool { return a == b },
		func(_ *table.Reader, k config.Key, o *config.Object, emit func(Key, Shape)) {
			emit(Key{k.Namespace, k.Name}, Shape{Certificate: o.Credential.Chain != nil, Authorities: o.Credential.CA != nil})
		})
	t.byName = table.Group(t.Shapes, "secret/shapes by name", strings.Compare, func(k Key, _ Shape) []string { return []string{k.Name} })
	return t
}

// use names one secret that the resources of a layer name.
type use struct {
	Layer mesh.Layer
	Name  string // of the resource
}

func compareUse(a, b use) int {
	return cmp.Or(mesh.CompareLayer(a.Layer, b.Layer), cmp.Compare(a.Name, b.Name))
}

// Publish derives the secrets that resources name, each once a layer.
func (t *Tables) Publish(name string, by scope.SecretUse, users *Published) *Published {
	uses := table.Group(users, name+" used", compareUse, func(k mesh.ResourceKey, e *envoy.Encoded) []use {
		var out []use
		for _, s := range e.Secrets {
			out = append(out, use{k.Shelf.Layer, s})
		}
		return out
	})
	return table.Derive(uses, name, mesh.CompareResourceKey, envoy.Same,
		func(r *table.Reader, u use, _ table.Rows[mesh.ResourceKey, *envoy.Encoded], emit func(mesh.ResourceKey, *envoy.Encoded)) {
			credential, authority := tls.CredentialOf(u.Name)
			build := t.certificate
			if authority {
				build = t.authorities
			}
			if e := build(r, u.Name, qualify(u.Layer.Namespace, credential)); e != nil {
				emit(mesh.ResourceKey{Shelf: scope.SecretShelf(u.Layer, by), Name: u.Name}, e)
			}
		})
}

func (t *Tables) certificate(r *table.Reader, resource string, k Key) *envoy.Encoded {
	if c := t.get(r, k); c != nil && c.Chain != nil {
		return envoy.Encode(tls.Certificate(resource, c.Chain, c.Key.PEM(), c.Staple))
	}
	return nil
}

func (t *Tables) authorities(r *table.Reader, resource string, k Key) *envoy.Encoded {
	k, ok := t.authority(r, k)
	if !ok {
		return nil
	}
	c := t.get(r, k)
	return envoy.Encode(tls.Authorities(resource, c.CA, c.CRL))
}

func (t *Tables) get(r *table.Reader, k Key) *config.Credential {
	o, ok := table.Get(r, t.secrets, config.Key{Kind: config.Secret, Namespace: k.Namespace, Name: k.Name})
	if !ok {
		return nil
	}
	return o.Credential
}
