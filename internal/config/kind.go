package config

import (
	"slices"
	"strconv"
	"sync"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config/crd"
	"fairway/internal/config/message"
	"fairway/internal/config/report"
	"fairway/internal/config/rule"
	"fairway/internal/config/security"
	"fairway/internal/mesh/code"
)

// kind is a Decoder's data about one API kind.
type kind struct {
	group string
	name  Kind
	empty func() proto.Message
	rules func(*rule.Check, proto.Message)
	read  func(*draft) proto.Message // instead of schema and rules, for a kind that has neither
	// native, instead of empty and rules, makes the Go type of a kind of Kubernetes' own or the Gateway API's out of a tree that passed its
	// schema; it returns nil if the rules refuse it.
	native func(*draft) any

	once   sync.Once // guards the fields below; they are read-only afterwards
	schema *crd.Schema
	err    error
}

// load prepares the kind's schema, once, when the first object of the kind is met.
func (k *kind) load() (*crd.Schema, error) {
	k.once.Do(func() { k.schema, k.err = crd.Load(string(k.name)) })
	return k.schema, k.err
}

// decode takes the document's tree through schema, message and rules. The message is nil when the tree does not get as far as that, and for
// native kinds.
func (k *kind) decode(w *draft) proto.Message {
	if k.read != nil {
		return k.read(w)
	}
	s, err := k.load()
	if err != nil {
		w.Fail("", code.NoSchema, err.Error(), "")
		return nil
	}
	if group, version := w.apiVersion(); group == k.group && !slices.Contains(s.Versions, version) {
		w.Fail("apiVersion", code.UnknownVersion, k.name.Word()+" has no version "+strconv.Quote(version),
			"write "+k.group+"/"+s.Versions[0])
	}
	known, ok := s.Validate(w.tree, &w.Report)
	w.tree = known
	if k.native != nil {
		if ok {
			w.native = k.native(w)
		}
		return nil
	}
	tree, _ := w.tree["spec"].(map[string]any)
	spec := k.empty()
	if ok {
		message.Fill(spec.ProtoReflect(), tree, *report.Spec(), &w.Report)
	}
	if w.Broken() {
		w.judgeRest(tree, *report.Spec(), k.empty, k.check)
		return nil
	}
	k.check(w, spec)
	return spec
}

// check runs the rules of the kind.
func (k *kind) check(w *draft, spec proto.Message) {
	if _, said := w.annotations[security.DryRun]; said && k.name != AuthorizationPolicy {
		w.Fail("metadata.annotations["+security.DryRun+"]", code.NotSupported,
			"only an AuthorizationPolicy can be tried out", "leave the annotation out")
	}
	check := rule.New(&w.Report, rule.Metadata{Namespace: w.key.Namespace, Annotations: w.annotations})
	k.rules(check, spec)
	warnDeprecated(check, *report.Spec(), spec.ProtoReflect())
}
