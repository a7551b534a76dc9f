package config

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Made is what is known of an object that is made of another one, which users wrote: it is never in a source's hands.
// It is immutable.
type Made struct {
	// Fields says what the fields are made of, so that problems name what the user wrote.
	Fields []MadeOf
	// ByPath says of a VirtualService that its prefixes are of whole path elements, and that its routes and those of others
	// like it go by how much of a request they name, not by their order (Kubernetes' Ingress).
	ByPath bool
	// Ports are names of ports that destinations ask for where VirtualService has but numbers, by the destination's field.
	Ports map[string]string
}

// MadeOf says that a field, and what is below it, is made of a field of the other object.
type MadeOf struct {
	Field, Of string
	Moved     bool // Field is Of as it is written, in another place: what is below the one is below the other
	Foreign   bool // Field is a third object's, which Of names: problems of it are that object's
}

// Origin is the field that a field is made of; where nothing is said of it, or of what it is part of, the field itself. m
// may be nil.
func (m *Made) Origin(field string) string {
	if m == nil {
		return field
	}
	f := m.of(field)
	switch {
	case f == nil:
		return field
	case f.Moved:
		return f.Of + strings.TrimPrefix(field, f.Field)
	}
	return f.Of
}

// Foreign says whether a field is a third object's. m may be nil.
func (m *Made) Foreign(field string) bool {
	if m == nil {
		return false
	}
	f := m.of(field)
	return f != nil && f.Foreign
}

// of is what is said of a field, or of the nearest one that it is part of; nil: nothing is.
func (m *Made) of(field string) *MadeOf {
	var out *MadeOf
	for i, f := range m.Fields {
		if (out == nil || len(f.Field) > len(out.Field)) && within(field, f.Field) {
			out = &m.Fields[i]
		}
	}
	return out
}

// within says whether a field is another one, or below it.
func within(field, above string) bool {
	rest, ok := strings.CutPrefix(field, above)
	return ok && (rest == "" || above == "" || rest[0] == '.' || rest[0] == '[')
}

// NewMade makes an object out of another one. Its name should be one that nobody can write, so that none gives way to it;
// problems of it name the other object.
func NewMade(key Key, of *Object, spec proto.Message, made *Made) *Object {
	o := &Object{Key: key, Created: of.Created, Spec: spec, Made: made, Ref: of.Unplaced().Ref}
	o.Hash = hash(o)
	return o
}

// String tells what an object is made with that its specification does not say; it is part of what the object says.
func (m *Made) String() string {
	if m == nil {
		return ""
	}
	return fmt.Sprint(*m)
}
