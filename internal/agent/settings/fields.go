package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"fairway/internal/printable"
	"fairway/internal/spelling"
)

// mostUnknown bounds how many unknown fields of one text are reported.
const mostUnknown = 20

// unknownFields returns the paths of fields that a message does not have, with a suggestion, and of fields with a value that is not
// in their enumeration; at most mostUnknown of them. tree is the text that the message was read from.
func unknownFields(tree any, of protoreflect.MessageDescriptor) []string {
	var out []string
	walkFields(tree, of, "", func(path string, value any, field protoreflect.FieldDescriptor, in protoreflect.MessageDescriptor) {
		switch {
		case len(out) == mostUnknown:
		case field == nil:
			out = append(out, path+suggestion(path[strings.LastIndexByte(path, '.')+1:], in))
		case field.Enum() != nil:
			if name, is := value.(string); is && field.Enum().Values().ByName(protoreflect.Name(name)) == nil {
				out = append(out, fmt.Sprintf("%s: want %s, not %s", path, expected(field), quoted(value)))
			}
		}
	})
	return out
}

// wrongField returns an error that names a field with a value that the message does not accept; nil if every field by itself is right.
func wrongField(tree any, of protoreflect.MessageDescriptor) (err error) {
	if _, is := tree.(map[string]any); !is && tree != nil {
		return fmt.Errorf("want an object with fields of %s, not %s", of.Name(), quoted(tree))
	}
	walkFields(tree, of, "", func(path string, value any, field protoreflect.FieldDescriptor, _ protoreflect.MessageDescriptor) {
		if err != nil || field == nil || accepts(field, value) {
			return
		}
		err = fmt.Errorf("%s: want %s, not %s", path, expected(field), quoted(value))
	})
	return err
}

// walkFields calls each for every field of a tree, after those below it; field is nil if the message in has no such field.
func walkFields(
	tree any,
	of protoreflect.MessageDescriptor,
	path string,
	each func(path string, value any, field protoreflect.FieldDescriptor, in protoreflect.MessageDescriptor),
) {
	object, _ := tree.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at, value := path+printable.Text(name, printable.Short), object[name]
		field := of.Fields().ByJSONName(name)
		if field == nil {
			field = of.Fields().ByTextName(name)
		}
		if field != nil && field.Message() != nil && !field.IsMap() && field.Message().ParentFile().Package() != "google.protobuf" {
			items := []any{value}
			if list, is := value.([]any); is && field.IsList() {
				items = list
			}
			for i, item := range items {
				below := at
				if field.IsList() {
					below = fmt.Sprintf("%s[%d]", at, i)
				}
				walkFields(item, field.Message(), below+".", each)
			}
		}
		each(at, value, field, of)
	}
}

// accepts reports whether a message accepts a value for a field of its own.
func accepts(field protoreflect.FieldDescriptor, value any) bool {
	text, err := json.Marshal(map[string]any{field.JSONName(): value})
	return err == nil &&
		protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, dynamicpb.NewMessage(field.ContainingMessage())) == nil
}

// expected returns what a field accepts.
func expected(field protoreflect.FieldDescriptor) string {
	switch {
	case field.IsMap():
		return "an object of texts" // all maps of ProxyConfig and MeshConfig that are read here are
	case field.IsList():
		return "a list"
	case field.Enum() != nil:
		var names []string
		for i := range field.Enum().Values().Len() {
			names = append(names, string(field.Enum().Values().Get(i).Name()))
		}
		return "one of " + strings.Join(names, ", ")
	case field.Message() != nil && field.Message().FullName() == "google.protobuf.Duration":
		return `a time such as "5s"`
	case field.Message() != nil && field.Message().ParentFile().Package() != "google.protobuf":
		return "an object with fields of " + string(field.Message().Name())
	}
	kind := field.Kind()
	if m := field.Message(); m != nil && m.Fields().ByName("value") != nil { // of google/protobuf/wrappers.proto
		kind = m.Fields().ByName("value").Kind()
	}
	switch kind {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "a number"
	case protoreflect.MessageKind:
		return "an object"
	}
	return "a whole number that fits " + kind.String()
}

// quoted returns a value in a form that the user recognizes.
func quoted(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "a value that JSON cannot express"
	}
	return printable.Text(string(text), printable.Short)
}

// suggestion names the field that may be meant, as the end of a sentence; "" if none is similar.
func suggestion(name string, in protoreflect.MessageDescriptor) string {
	best, least := "", max(1, len(name)/3)
	for i := range in.Fields().Len() {
		if field := in.Fields().Get(i).JSONName(); len(name) <= 2*len(field) {
			if n := spelling.Distance(name, field, least); n <= least && (best == "" || n < least) {
				best, least = field, n
			}
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}
