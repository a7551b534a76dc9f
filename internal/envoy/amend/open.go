package amend

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy"
)

// Open is a message that patches change in place. Each Any in it is unpacked once, for the first patch that needs its content, and packed
// again once, after the last patch: see [Open.Pack]. If a patch fails, the message must not be used.
type Open struct {
	unpacked map[*anypb.Any]proto.Message
	order    []*anypb.Any // as they were unpacked: an inner one after the outer one
	changed  map[*anypb.Any]bool
}

// unpack returns the message that is packed in an Any of the open message. If a patch changes it, touch must be called.
func (o *Open) unpack(a *anypb.Any) (proto.Message, error) {
	if m, ok := o.unpacked[a]; ok {
		return m, nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	if o.unpacked == nil {
		o.unpacked, o.changed = map[*anypb.Any]proto.Message{}, map[*anypb.Any]bool{}
	}
	o.unpacked[a], o.order = m, append(o.order, a)
	return m, nil
}

// touch makes Pack pack the unpacked message again.
func (o *Open) touch(a *anypb.Any) { o.changed[a] = true }

// forget drops the unpacked message of an Any, because the Any gets another value.
func (o *Open) forget(a *anypb.Any) {
	if _, ok := o.unpacked[a]; !ok {
		return
	}
	delete(o.unpacked, a)
	delete(o.changed, a)
	o.order = slices.DeleteFunc(o.order, func(b *anypb.Any) bool { return a == b })
}

// Pack packs what patches changed. Patches may go on changing the message afterwards.
func (o *Open) Pack() {
	for _, a := range slices.Backward(o.order) {
		if !o.changed[a] {
			continue
		}
		packed := envoy.Any(o.unpacked[a])
		a.TypeUrl, a.Value = packed.GetTypeUrl(), packed.GetValue()
	}
	clear(o.changed)
}
