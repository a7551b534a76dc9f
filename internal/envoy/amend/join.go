package amend

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	networking "istio.io/api/networking/v1alpha3"
)

// Joint merges several patches into one, for messages that all of them change: it merges once what they would merge one after the other.
type Joint struct {
	first *Patch
	value proto.Message
}

// NewJoint starts a joint patch of clusters. It returns nil if the patch is not a MERGE, or has a match on clusters.
func NewJoint(p *Patch) *Joint {
	if p.to != networking.EnvoyFilter_CLUSTER || p.op != opMerge || p.match.GetCluster() != nil {
		return nil
	}
	return &Joint{p, proto.Clone(p.value)}
}

// Add adds a patch that is applied after those before it. It returns false and changes nothing if the patches would give another result
// when applied one after the other: a patch may replace what an earlier one set (a member of a oneof, an Any of another type), and then
// removes it from the cluster too.
func (j *Joint) Add(p *Patch) bool {
	next := NewJoint(p)
	if next == nil || p.match.GetContext() != j.first.match.GetContext() || replaces(j.value.ProtoReflect(), next.value.ProtoReflect()) {
		return false
	}
	return merger{open: &Open{}}.merge(j.value.ProtoReflect(), next.value.ProtoReflect()) == nil
}

// replaces reports whether merging src into dst removes something from dst other than a single value.
func replaces(dst, src protoreflect.Message) (found bool) {
	if _, is := src.Interface().(*anypb.Any); is {
		return true // packed messages are not compared
	}
	if whole(src.Descriptor()) {
		return false
	}
	src.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if one := fd.ContainingOneof(); one != nil {
			if had := dst.WhichOneof(one); had != nil && had != fd {
				found = true
				return false
			}
		}
		switch {
		case fd.Message() == nil || fd.IsList() || !dst.Has(fd):
		case !fd.IsMap():
			found = replaces(dst.Get(fd).Message(), v.Message())
		case fd.MapValue().Message() != nil:
			to := dst.Get(fd).Map()
			v.Map().Range(func(k protoreflect.MapKey, one protoreflect.Value) bool {
				found = to.Has(k) && replaces(to.Get(k).Message(), one.Message())
				return !found
			})
		}
		return !found
	})
	return found
}

// Change merges the value into a cluster that each of the patches may change. If last is set, no later patch changes the cluster, so it
// may share parts of the value.
func (j *Joint) Change(open *Open, m proto.Message, last bool) error {
	return merger{open: open, shares: last}.merge(m.ProtoReflect(), j.value.ProtoReflect())
}
