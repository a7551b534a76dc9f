package amend

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy"
)

// merge merges src into dst as protobuf does, but for three things: what is packed in an Any is merged too, where both are of
// one type; well-known values (durations, wrappers) are replaced as a whole; and where lists is set, lists are replaced
// (MERGE_AND_REPLACE_LIST).
func merge(dst, src protoreflect.Message, lists bool) error {
	if whole(src.Descriptor()) {
		proto.Reset(dst.Interface())
		proto.Merge(dst.Interface(), src.Interface())
		return nil
	}
	if to, ok := dst.Interface().(*anypb.Any); ok {
		return mergeAny(to, src.Interface().(*anypb.Any), lists)
	}
	var failed error
	src.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			mergeList(dst, fd, v.List(), lists)
		case fd.IsMap():
			failed = mergeMap(dst.Mutable(fd).Map(), fd, v.Map(), lists)
		case fd.Message() != nil && dst.Has(fd):
			failed = merge(dst.Mutable(fd).Message(), v.Message(), lists)
		case fd.Message() != nil:
			dst.Set(fd, protoreflect.ValueOfMessage(proto.Clone(v.Message().Interface()).ProtoReflect()))
		default:
			dst.Set(fd, v)
		}
		return failed == nil
	})
	return failed
}

// whole says of a message that it is one value, and is never merged.
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

func mergeMap(dst protoreflect.Map, fd protoreflect.FieldDescriptor, v protoreflect.Map, lists bool) (failed error) {
	v.Range(func(k protoreflect.MapKey, one protoreflect.Value) bool {
		switch {
		case fd.MapValue().Message() == nil:
			dst.Set(k, one)
		case dst.Has(k):
			failed = merge(dst.Mutable(k).Message(), one.Message(), lists)
		default:
			dst.Set(k, protoreflect.ValueOfMessage(proto.Clone(one.Message().Interface()).ProtoReflect()))
		}
		return failed == nil
	})
	return failed
}

// mergeAny merges what is packed; what is of another type is replaced.
func mergeAny(dst, src *anypb.Any, lists bool) error {
	if dst.GetTypeUrl() != src.GetTypeUrl() {
		dst.TypeUrl, dst.Value = src.GetTypeUrl(), src.GetValue()
		return nil
	}
	to, err := dst.UnmarshalNew()
	if err != nil {
		return err
	}
	from, err := src.UnmarshalNew()
	if err != nil {
		return err
	}
	if err := merge(to.ProtoReflect(), from.ProtoReflect(), lists); err != nil {
		return err
	}
	packed := envoy.Any(to)
	dst.TypeUrl, dst.Value = packed.GetTypeUrl(), packed.GetValue()
	return nil
}
