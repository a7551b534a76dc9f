package config

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
)

// kind is what a Decoder knows of one API kind.
type kind struct {
	group string
	name  Kind
	empty func() proto.Message
	rules func(*check, proto.Message)
	read  func(*draft) proto.Message // instead of schema and rules, for a kind that is none of Istio's

	once   sync.Once // guards what follows; read-only afterwards
	schema *schema
	err    error
}

// load prepares the kind's schema, once, when the first object of the kind is met.
func (k *kind) load() (*schema, error) {
	k.once.Do(func() { k.schema, k.err = loadSchema(k.name) })
	return k.schema, k.err
}

// decode takes the document's tree through schema, message and rules. It returns nil when the tree does not get as far as a message.
func (k *kind) decode(w *draft) proto.Message {
	if k.read != nil {
		return k.read(w)
	}
	s, err := k.load()
	if err != nil {
		w.fail("", "NoSchema", err.Error(), "")
		return nil
	}
	if _, version := w.apiVersion(); !slices.Contains(s.versions, version) {
		w.fail("apiVersion", "UnknownVersion", string(k.name)+" has no version "+quote(version), "write "+k.group+"/"+s.versions[0])
		return nil
	}
	if !s.validate(w) {
		return nil
	}
	spec := k.empty()
	tree, _ := w.tree["spec"].(map[string]any)
	fillMessage(spec.ProtoReflect(), tree, path{name: "spec"}, w.report)
	if w.broken {
		return nil
	}
	k.rules(&check{draft: w}, spec)
	return spec
}
