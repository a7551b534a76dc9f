package amend

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/envoy"
)

// Open is a message while patches change it in place. Each Any in it is unpacked once, for the first patch that looks into it, and packed
// again once, after the last: see [Open.Pack]. After an error of a patch the message is worth nothing.
type Open struct {
	unpacked map[*anypb.Any]proto.Message
	order    []*anypb.Any // as they were unpacked: an inner one after the outer one
	changed  map[*anypb.Any]bool
}

// unpack returns what is packed in an Any of the message. It may be changed, after touch.
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

// touch has Pack pack again what unpack returned.
func (o *Open) touch(a *anypb.Any) { o.changed[a] = true }

// forget drops what was unpacked, because other bytes take its place.
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
