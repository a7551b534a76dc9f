package config

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"fairway/internal/mesh"
)

// Kind is an API kind: "VirtualService". "MeshConfig" and "MeshNetworks" are kinds of ours with one object each, without namespace and name.
type Kind string

// Key names an object: one per kind, namespace and name, whatever API version it was written in.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

func (k Key) String() string { return string(k.Kind) + " " + k.Namespace + "/" + k.Name }

// CompareKey orders by kind, namespace, name.
func CompareKey(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Object is one thing a user wrote: decoded, defaulted and valid. It is immutable.
type Object struct {
	Key
	Labels      mesh.Labels
	Annotations map[string]string
	Created     int64         // Unix seconds from creationTimestamp; 0 where there is none
	Spec        proto.Message // an istio.io/api message: *networking.VirtualService, …
	Ref         mesh.ObjectRef
	Text        []byte      // the document as written (YAML or JSON), to find a field's line in
	Credential  *Credential // of a Secret; nil otherwise
	Hash        uint64      // of everything above but Ref and Text: equal hashes are the same object
}

// Spec returns the object's specification as the message its kind has. It panics when asked for another kind's.
func Spec[T proto.Message](o *Object) T { return o.Spec.(T) }

// Same says whether two objects say the same; and stands in the same place (problems name it).
func Same(a, b *Object) bool {
	return a == b || a != nil && b != nil && a.Key == b.Key && a.Hash == b.Hash && a.Ref == b.Ref
}

// Older orders objects of a kind as Istio resolves conflicts: by creation time, then namespace and name.
func Older(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Line returns the line, in the object's file, of a field: "spec.http[0].route[1].weight". A field that is not written has the line of what it
// would stand in. It is 0 where there is no text. The text is parsed for it, so it is for problems, not for every row.
func (o *Object) Line(field string) int {
	if o == nil || len(o.Text) == 0 {
		return 0
	}
	return indexLines(Document{Line: max(o.Ref.Line, 1), Text: o.Text}).of(field)
}

// Problem makes a problem about one field of the object, or about the whole of it where field is empty.
func (o *Object) Problem(field, code string, severity mesh.Severity, message, fix string) mesh.Problem {
	return mesh.Problem{Object: o.Ref, Line: o.Line(field), Field: field, Code: code, Severity: severity, Message: message, Fix: fix}
}
