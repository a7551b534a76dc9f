package config

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config/message"
	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/config/schemas"
	"fairway/internal/mesh"
)

// Options of a Decoder. The zero value is useful.
type Options struct {
	// DefaultNamespace is the namespace of an object that names none; "default" when empty.
	DefaultNamespace string
	// Now is the clock for the dates of certificates; time.Now when nil.
	Now func() time.Time
}

// Decoder turns documents into objects. It is safe for concurrent use; a kind is prepared when its first object is decoded.
type Decoder struct {
	namespace string
	now       func() time.Time
	kinds     map[Kind]*kind
}

// NewDecoder returns a decoder for every kind of Istio's API and the Gateway API, and for Secret. It fails only in a build that lacks the
// schemas (schemas.ErrMissing).
func NewDecoder(o Options) (*Decoder, error) {
	d := &Decoder{namespace: cmp.Or(o.DefaultNamespace, "default"), now: time.Now, kinds: kindsByName()}
	if o.Now != nil {
		d.now = o.Now
	}
	var names []string
	for _, k := range slices.Concat(Kinds(), GatewayKinds()) {
		names = append(names, string(k))
	}
	return d, schemas.Check(names)
}

// Decode reads one document. The object is nil if one of the problems is an Error, if the document is empty (then there are no problems),
// or if its kind is not one of ours (then a Warning says so). A problem's Object has kind, namespace and name as far as they could be read,
// so that a caller knows which object the document was meant to be; if nothing could be read, the kind is "file".
func (d *Decoder) Decode(doc Document) (*Object, []mesh.Problem) {
	w := d.draft(doc)
	tree, bad := doc.Tree()
	if bad != nil {
		bad = w.guessIdentity(bad)
	}
	return w.decode(d, tree, bad)
}

// DecodeMeshConfig reads a file of mesh configuration (istio.mesh.v1alpha1.MeshConfig as plain YAML or JSON, without
// apiVersion and kind) over the defaults that Istio documents. Unknown fields are errors. The object's kind is
// "MeshConfig".
func (d *Decoder) DecodeMeshConfig(doc Document) (*Object, []mesh.Problem) {
	return decodePlain(doc, MeshConfig, DefaultMeshConfig, func(c *rule.Check, m *meshconfig.MeshConfig) {
		addDefaultProviders(m)
		checkMeshConfig(c, m)
	})
}

// DecodeMeshNetworks reads a file of networks (istio.mesh.v1alpha1.MeshNetworks as plain YAML or JSON). The object's
// kind is "MeshNetworks".
func (d *Decoder) DecodeMeshNetworks(doc Document) (*Object, []mesh.Problem) {
	return decodePlain(doc, MeshNetworks, newMeshNetworks, checkMeshNetworks)
}

// decodePlain reads a document that is a message by itself, over a message that holds the defaults.
func decodePlain[T proto.Message](doc Document, name Kind, defaults func() T, rules func(*rule.Check, T)) (*Object, []mesh.Problem) {
	w := &draft{Report: report.New(doc), key: Key{Kind: name}}
	w.Ref = mesh.ObjectRef{Kind: string(name), File: doc.File, Line: doc.Line}
	tree, bad := doc.Tree()
	if !w.take(tree, bad) && w.Failed() {
		return nil, w.Listed()
	}
	spec := defaults()
	message.Fill(spec.ProtoReflect(), w.tree, report.Path{}, &w.Report)
	check := func(w *draft, spec proto.Message) { rules(rule.New(&w.Report, rule.Metadata{}), spec.(T)) }
	if w.Broken() {
		w.judgeRest(w.tree, report.Path{}, func() proto.Message { return defaults() }, check)
	} else {
		check(w, spec)
	}
	if w.Failed() {
		return nil, w.Sorted()
	}
	return w.object(spec), w.Sorted()
}
