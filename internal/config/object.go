package config

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"fairway/internal/config/document"
	"fairway/internal/mesh"
)

// Kind is an API kind, by a name that no other kind has: "VirtualService". Two API groups have a Gateway; that of
// gateway.networking.k8s.io is "Gateway.gateway.networking.k8s.io", as kubectl writes it. "MeshConfig" and "MeshNetworks" are kinds of ours
// with one object each, without namespace and name.
type Kind string

// Word returns the kind as documents and API servers have it, beside its group: "Gateway".
func (k Kind) Word() string {
	word, _, _ := strings.Cut(string(k), ".")
	return word
}

// Key names an object: one per kind, namespace and name, regardless of the API version that it was written in.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
}

// KeyOf returns the key of a problem's object; if that is not an object, such as a file, the key names none.
func KeyOf(o mesh.ObjectRef) Key {
	return Key{Kind: Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
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
	Created     int64         // Unix seconds from creationTimestamp; 0 if there is none
	Spec        proto.Message // an istio.io/api message: *networking.VirtualService, …; nil where Native is set
	Credential  *Credential   // of a Secret; nil otherwise
	// Native is the specification of kinds that have no message: *networkingv1.IngressSpec, *native.HTTPRouteSpec, …; nil otherwise.
	Native any
	// Made says how to read an object that is made of another one; nil: a user wrote it.
	Made *Made
	// Hash is the hash of the object's content: equal hashes mean equal content. Labels and annotations count if they have an effect
	Hash uint64

	// The object's place, which is not part of its content.
	Ref    mesh.ObjectRef
	Text   []byte // the document as written (YAML or JSON), to find a field's line in; nil if it came as a tree
	Stored Stored // zero if it did not come from an API server
}

// Written is the place and the text of an object.
type Written struct {
	Ref    mesh.ObjectRef
	Text   []byte
	Stored Stored
}

// String returns only the place.
func (w Written) String() string {
	if w.Ref.File == "" {
		return w.Stored.String()
	}
	return w.Ref.File + ":" + strconv.Itoa(w.Ref.Line)
}

// Equal compares place, text and stored version.
func (w Written) Equal(o Written) bool {
	return w.Ref == o.Ref && w.Stored == o.Stored && bytes.Equal(w.Text, o.Text)
}

// Written returns the object's place and text.
func (o *Object) Written() Written { return Written{o.Ref, o.Text, o.Stored} }

// At returns the object as it is, written elsewhere.
func (o *Object) At(w Written) *Object {
	moved := *o
	moved.Ref, moved.Text, moved.Stored = w.Ref, w.Text, w.Stored
	return &moved
}

// CreatedAt returns the object with another creation time, in Unix seconds.
func (o *Object) CreatedAt(unix int64) *Object {
	aged := *o
	aged.Created = unix
	aged.Hash = hash(&aged)
	return &aged
}

// Unplaced returns the object without its place: its Ref has only the object's name.
func (o *Object) Unplaced() *Object {
	ref := o.Ref
	ref.File, ref.Line = "", 0
	return o.At(Written{Ref: ref})
}

// Spec returns the object's specification as the message its kind has. It panics when asked for another kind's.
func Spec[T proto.Message](o *Object) T { return o.Spec.(T) }

// Same reports whether two objects have the same content, wherever they are written.
func Same(a, b *Object) bool {
	return a == b || a != nil && b != nil && a.Key == b.Key && a.Hash == b.Hash
}

// Older orders objects of a kind as Istio resolves conflicts: by creation time, then namespace and name.
func Older(a, b *Object) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Line returns the line, in the object's file, of a field: "spec.http[0].route[1].weight". A field that is not written has the line of the
// nearest field around it. The line is 0 if there is no text. Each call parses the text, so Line is for problems, not for every row.
func (w Written) Line(field string) int {
	return w.Lines().Of(field)
}

// Lines returns the lines of all fields, for those who ask for several of one object: it costs what reading the object costs.
func (w Written) Lines() *document.Lines {
	if len(w.Text) == 0 {
		return &document.Lines{}
	}
	return document.IndexLines(Document{Line: max(w.Ref.Line, 1), Text: w.Text})
}

// Problem makes a problem about one field of the object, or about the whole of it where field is empty.
func (o *Object) Problem(field, code string, severity mesh.Severity, message, fix string) mesh.Problem {
	field = o.Made.Origin(field)
	return mesh.Problem{
		Object:   o.Ref,
		Line:     o.Written().Line(field),
		Field:    field,
		Code:     code,
		Severity: severity,
		Message:  message,
		Fix:      fix,
	}
}
