package message

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fairway/internal/config/document"
	"fairway/internal/config/report"
	"fairway/internal/mesh/code"
	"fairway/internal/spelling"
)

// Fill sets the fields of m from tree, which is at a place of a document. If m already has a field, it is merged if it is a message, and
// replaced otherwise. Mistakes in the tree are reported to r, by field, and left out of m.
func Fill(m protoreflect.Message, tree map[string]any, at report.Path, r *report.Report) {
	(&filler{Report: r}).message(m, tree, &at)
}

// Rest says what a field has in place of a value that cannot be read, in a message that is only judged and never used.
type Rest uint8

// The items of lists keep their places in both cases.
const (
	Absent  Rest = iota + 1 // the field is not set
	Present                 // the field has some value of its type
)

// FillRest is Fill for a message that is only judged: of a tree with mistakes it reads the rest. Two messages, one for each of the cases,
// tell which problems do not depend on the fields that cannot be read.
func FillRest(m protoreflect.Message, tree map[string]any, at report.Path, rest Rest, r *report.Report) {
	(&filler{r, rest}).message(m, tree, &at)
}

type filler struct {
	*report.Report
	rest Rest // 0: mistakes are left out, items of lists too
}

func (f *filler) message(m protoreflect.Message, tree map[string]any, at *report.Path) {
	fields := m.Descriptor().Fields()
	names := maps.Keys(tree)
	if f.rest != 0 { // of fields that exclude each other, always the same one counts
		names = slices.Values(slices.Sorted(names))
	}
	for name := range names {
		v := tree[name]
		if v == nil {
			continue // null is as good as absent
		}
		here := at.Key(name)
		fd := fields.ByJSONName(name)
		if fd == nil {
			fd = fields.ByTextName(name)
		}
		if fd == nil {
			f.FailAt(here, code.UnknownField, "unknown field "+strconv.Quote(name), nearest(name, fields))
			continue
		}
		f.field(m, fd, v, &here)
	}
	f.twice(m.Descriptor(), tree, at)
}

// twice reports members of one oneof that are both set, and a field that is written in both of its spellings: maps have no order that could
// decide.
func (f *filler) twice(d protoreflect.MessageDescriptor, tree map[string]any, at *report.Path) {
	if len(tree) < 2 {
		return
	}
	seen := map[protoreflect.FullName]string{}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		fd := d.Fields().ByJSONName(name)
		if fd == nil {
			fd = d.Fields().ByTextName(name)
		}
		if fd == nil || tree[name] == nil {
			continue
		}
		id := fd.FullName()
		if o := fd.ContainingOneof(); o != nil {
			id = o.FullName()
		}
		if other, has := seen[id]; has {
			f.FailAt(at.Key(name), code.Conflict, fmt.Sprintf("%s and %s exclude each other", other, name), "keep one of the two")
		}
		seen[id] = name
	}
}

func (f *filler) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, v any, at *report.Path) {
	switch {
	case fd.IsMap():
		f.mapField(m, fd, v, at)
	case fd.IsList():
		f.listField(m, fd, v, at)
	case fd.Message() != nil:
		if !f.sub(m.Mutable(fd).Message(), v, at) && f.rest == Absent {
			m.Clear(fd)
		}
	default:
		if x, ok := f.scalar(fd, v, at); ok {
			m.Set(fd, x)
		} else if f.rest == Present {
			m.Set(fd, someValue(fd))
		}
	}
}

// someValue returns a value of a scalar field that is not its default.
func someValue(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1)
	}
	return protoreflect.ValueOfInt64(1)
}

func (f *filler) mapField(m protoreflect.Message, fd protoreflect.FieldDescriptor, v any, at *report.Path) {
	tree, ok := v.(map[string]any)
	if !ok {
		f.wrong(at, v, "a set of fields")
		return
	}
	out := m.Mutable(fd).Map()
	for k, e := range tree {
		here := at.Key(k)
		key, ok := f.mapKey(fd.MapKey(), k, &here)
		if !ok {
			continue
		}
		if fd.MapValue().Message() != nil {
			val := out.NewValue()
			f.sub(val.Message(), e, &here)
			out.Set(key, val)
		} else if val, ok := f.scalar(fd.MapValue(), e, &here); ok {
			out.Set(key, val)
		} else if f.rest == Present {
			out.Set(key, someValue(fd.MapValue()))
		}
	}
}

func (f *filler) mapKey(fd protoreflect.FieldDescriptor, k string, at *report.Path) (protoreflect.MapKey, bool) {
	if fd.Kind() == protoreflect.StringKind {
		return protoreflect.ValueOfString(k).MapKey(), true
	}
	if fd.Kind() == protoreflect.BoolKind {
		b, err := strconv.ParseBool(k)
		if err != nil {
			f.wrong(at, k, "true or false")
		}
		return protoreflect.ValueOfBool(b).MapKey(), err == nil
	}
	v, ok := f.scalar(fd, k, at)
	if !ok {
		return protoreflect.MapKey{}, false
	}
	return v.MapKey(), true
}

func (f *filler) listField(m protoreflect.Message, fd protoreflect.FieldDescriptor, v any, at *report.Path) {
	items, ok := v.([]any)
	if !ok {
		f.wrong(at, v, "a list")
		if f.rest != Present {
			return
		}
		items = []any{v}
	}
	m.Clear(fd)
	out := m.Mutable(fd).List()
	for i, e := range items {
		here := at.At(i)
		if fd.Message() != nil {
			val := out.NewElement()
			f.sub(val.Message(), e, &here)
			out.Append(val)
		} else if val, ok := f.scalar(fd, e, &here); ok {
			out.Append(val)
		} else if f.rest != 0 {
			out.Append(someValue(fd))
		}
	}
}

// sub fills a message inside another, the well-known ones by their own forms. It returns false if the value is none of the message's.
func (f *filler) sub(m protoreflect.Message, v any, at *report.Path) bool {
	switch name := m.Descriptor().FullName(); name {
	case "google.protobuf.Duration":
		return f.duration(m, v, at)
	case "google.protobuf.BoolValue",
		"google.protobuf.StringValue",
		"google.protobuf.BytesValue",
		"google.protobuf.Int32Value",
		"google.protobuf.UInt32Value",
		"google.protobuf.Int64Value",
		"google.protobuf.UInt64Value",
		"google.protobuf.FloatValue",
		"google.protobuf.DoubleValue":
		fd := m.Descriptor().Fields().ByName("value")
		x, ok := f.scalar(fd, v, at)
		if ok {
			m.Set(fd, x)
		}
		return ok
	default:
		if strings.HasPrefix(string(name), "google.protobuf.") {
			return f.wellKnown(m, v, at)
		}
	}
	tree, ok := v.(map[string]any)
	if !ok {
		f.wrong(at, v, "a set of fields")
		return false
	}
	f.message(m, tree, at)
	return true
}

// wellKnown leaves the rarer well-known types (Struct, Value, Timestamp, Any) to protojson.
func (f *filler) wellKnown(m protoreflect.Message, v any, at *report.Path) bool {
	text, err := json.Marshal(v)
	if err == nil {
		err = protojson.Unmarshal(text, m.Interface())
	}
	if err != nil {
		f.FailAt(*at, code.WrongType, "not a "+string(m.Descriptor().Name()), "")
	}
	return err == nil
}

// duration reads "1.5s" and, as istio.io/api's own decoder does, all that Go calls a duration: "30ms", "5m", "1h30m".
func (f *filler) duration(m protoreflect.Message, v any, at *report.Path) bool {
	s, ok := v.(string)
	if !ok {
		f.wrong(at, v, "a duration in quotes")
		return false
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		f.FailAt(*at, code.BadDuration, strconv.Quote(s)+" is not a duration", "write a number and a unit: 1.5s, 30ms, 5m")
		return false
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(int64(d/time.Second)))
	m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(int32(d%time.Second)))
	return true
}

func (f *filler) wrong(at *report.Path, v any, want string) {
	f.FailAt(*at, code.WrongType, fmt.Sprintf("%s is not %s", report.Show(v), want), "write "+want)
}

func (f *filler) scalar(fd protoreflect.FieldDescriptor, v any, at *report.Path) (protoreflect.Value, bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if s, ok := v.(string); ok {
			return protoreflect.ValueOfString(s), true
		}
		f.wrong(at, v, "a string")
	case protoreflect.BoolKind:
		if b, ok := v.(bool); ok {
			return protoreflect.ValueOfBool(b), true
		}
		f.wrong(at, v, "true or false")
	case protoreflect.EnumKind:
		return f.enum(fd.Enum(), v, at)
	case protoreflect.BytesKind:
		return f.bytes(v, at)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return f.float(fd.Kind(), v, at)
	default:
		return f.integer(fd.Kind(), v, at)
	}
	return protoreflect.Value{}, false
}

func (f *filler) enum(ed protoreflect.EnumDescriptor, v any, at *report.Path) (protoreflect.Value, bool) {
	switch v := v.(type) {
	case string:
		if e := ed.Values().ByName(protoreflect.Name(v)); e != nil {
			return protoreflect.ValueOfEnum(e.Number()), true
		}
	case int64:
		if e := ed.Values().ByNumber(protoreflect.EnumNumber(v)); e != nil && v == int64(int32(v)) {
			return protoreflect.ValueOfEnum(e.Number()), true
		}
	}
	names := make([]string, ed.Values().Len())
	for i := range names {
		names[i] = string(ed.Values().Get(i).Name())
	}
	f.FailAt(*at, code.UnknownValue, report.Show(v)+" is not one of the values", "write one of "+strings.Join(names, ", "))
	return protoreflect.Value{}, false
}

func (f *filler) bytes(v any, at *report.Path) (protoreflect.Value, bool) {
	if s, ok := v.(string); ok {
		enc := base64.StdEncoding
		if strings.ContainsAny(s, "-_") {
			enc = base64.URLEncoding
		}
		if len(s)%4 != 0 {
			enc = enc.WithPadding(base64.NoPadding)
		}
		if raw, err := enc.DecodeString(s); err == nil {
			return protoreflect.ValueOfBytes(raw), true
		}
	}
	f.wrong(at, v, "text in base64")
	return protoreflect.Value{}, false
}

func (f *filler) float(kind protoreflect.Kind, v any, at *report.Path) (protoreflect.Value, bool) {
	n, ok := number(v)
	if s, isText := v.(string); isText && !ok {
		n, ok = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[s]
	}
	if !ok || kind == protoreflect.FloatKind && math.Abs(n) > math.MaxFloat32 && !math.IsInf(n, 0) {
		f.wrong(at, v, "a number")
		return protoreflect.Value{}, false
	}
	if kind == protoreflect.FloatKind {
		return protoreflect.ValueOfFloat32(float32(n)), true
	}
	return protoreflect.ValueOfFloat64(n), true
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil && isJSONNumber(v)
	}
	return 0, false
}

func isJSONNumber(s string) bool { return json.Valid([]byte(s)) }

func (f *filler) integer(kind protoreflect.Kind, v any, at *report.Path) (protoreflect.Value, bool) {
	n, ok := integer(v)
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if ok && n == int64(int32(n)) {
			return protoreflect.ValueOfInt32(int32(n)), true
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if ok && n == int64(uint32(n)) {
			return protoreflect.ValueOfUint32(uint32(n)), true
		}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if s, isText := v.(string); isText && !ok {
			if u, err := strconv.ParseUint(s, 10, 64); err == nil {
				return protoreflect.ValueOfUint64(u), true
			}
		}
		if ok && n >= 0 {
			return protoreflect.ValueOfUint64(uint64(n)), true
		}
	default:
		if ok {
			return protoreflect.ValueOfInt64(n), true
		}
	}
	f.wrong(at, v, "a whole number in range")
	return protoreflect.Value{}, false
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return document.WholeNumber(v)
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil && isJSONNumber(v)
	}
	return 0, false
}

// nearest suggests the field that a misspelt name probably meant.
func nearest(name string, fields protoreflect.FieldDescriptors) string {
	return spelling.DidYouMean(name, func(yield func(string) bool) {
		for i := range fields.Len() {
			if !yield(fields.Get(i).JSONName()) {
				return
			}
		}
	}, 2)
}
