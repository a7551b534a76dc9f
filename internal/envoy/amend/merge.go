package amend

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// merger merges a patch's value into a message that is changed in place.
type merger struct {
	open    *Open
	sources map[*anypb.Any]proto.Message // the messages packed in the value
	lists   bool                         // lists are replaced (MERGE_AND_REPLACE_LIST)
	shares  bool                         // the message may share parts of the value, because it is not changed any more
}

// own returns a message of the value for use in the changed message: a copy, unless parts of the value may be shared.
func (g merger) own(v protoreflect.Value) protoreflect.Value {
	if g.shares {
		return v
	}
	return protoreflect.ValueOfMessage(proto.Clone(v.Message().Interface()).ProtoReflect())
}

// merge merges src into dst as protobuf does, with three exceptions: messages packed in Anys of the same type are merged too; well-known
// values (durations, wrappers) are replaced as a whole; and lists may be replaced.
func (g merger) merge(dst, src protoreflect.Message) error {
	if whole(src.Descriptor()) {
		proto.Reset(dst.Interface())
		proto.Merge(dst.Interface(), src.Interface())
		return nil
	}
	if to, ok := dst.Interface().(*anypb.Any); ok {
		return g.mergeAny(to, src.Interface().(*anypb.Any))
	}
	var failed error
	src.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			mergeList(dst, fd, v.List(), g.lists)
		case fd.IsMap():
			failed = g.mergeMap(dst.Mutable(fd).Map(), fd, v.Map())
		case fd.Message() != nil && dst.Has(fd):
			failed = g.merge(dst.Mutable(fd).Message(), v.Message())
		case fd.Message() != nil:
			dst.Set(fd, g.own(v))
		default:
			dst.Set(fd, v)
		}
		return failed == nil
	})
	return failed
}

// whole reports whether a message is a single value, which is replaced and never merged.
func whole(d protoreflect.MessageDescriptor) bool {
	switch d.FullName() {
	case "google.protobuf.Any", "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue":
		return false
	}
	return d.FullName().Parent() == "google.protobuf"
}

func mergeList(dst protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.List, replace bool) {
	if replace {
		dst.Clear(fd)
	}
	to := dst.Mutable(fd).List()
	for i := range v.Len() {
		one := v.Get(i)
		if fd.Message() != nil {
			one = protoreflect.ValueOfMessage(proto.Clone(one.Message().Interface()).ProtoReflect())
		}
		to.Append(one)
	}
}

func (g merger) mergeMap(dst protoreflect.Map, fd protoreflect.FieldDescriptor, v protoreflect.Map) (failed error) {
	v.Range(func(k protoreflect.MapKey, one protoreflect.Value) bool {
		switch {
		case fd.MapValue().Message() == nil:
			dst.Set(k, one)
		case dst.Has(k):
			failed = g.merge(dst.Mutable(k).Message(), one.Message())
		default:
			dst.Set(k, g.own(one))
		}
		return failed == nil
	})
	return failed
}

// mergeAny merges the packed messages if they have the same type; otherwise src replaces dst.
func (g merger) mergeAny(dst, src *anypb.Any) error {
	if dst.GetTypeUrl() != src.GetTypeUrl() {
		g.open.forget(dst)
		dst.TypeUrl, dst.Value = src.GetTypeUrl(), src.GetValue()
		return nil
	}
	to, err := g.open.unpack(dst)
	if err != nil {
		return err
	}
	from := g.sources[src]
	if from == nil {
		if from, err = src.UnmarshalNew(); err != nil {
			return err
		}
	}
	g.open.touch(dst)
	return g.merge(to.ProtoReflect(), from.ProtoReflect())
}

// unpackAll unpacks every Any of a message into out, at any depth. An Any that cannot be unpacked is left out.
func unpackAll(m protoreflect.Message, out map[*anypb.Any]proto.Message) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if inner, err := a.UnmarshalNew(); err == nil {
			out[a] = inner
			unpackAll(inner.ProtoReflect(), out)
		}
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { unpackAll(v.Message(), out); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				unpackAll(v.List().Get(i).Message(), out)
			}
		default:
			unpackAll(v.Message(), out)
		}
		return true
	})
}
