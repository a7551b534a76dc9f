package xds

import (
	"maps"
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// assembled is a resource completed by its members, for the state-of-the-world protocol, which has no virtual host
// discovery.
type assembled struct {
	part    *Part
	typ     string
	members []*Resource // by name
	version uint64
	value   int // bytes of the message
	size    int // bytes of the whole field in the response
}

// assemble collects the members of a resource.
func assemble(v *view, r *Resource) *assembled {
	part := r.opts.Bare
	found := map[string]*Resource{}
	hosts := v.stack(part.MemberType)
	hosts.members(r.links.bare, func(e *entry) {
		if m := hosts.resolve(e); m != nil {
			found[e.text] = m
		}
	})
	a := &assembled{part: part, typ: r.typ, value: len(part.Body)}
	sum := r.sum
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		a.members = append(a.members, m)
		a.value += sizeBytes(part.Field, len(m.Body()))
		sum ^= m.sum
	}
	a.version = scramble(sum)
	a.size = sizeBytes(responseResources, a.anyLen())
	return a
}

func (a *assembled) anyLen() int {
	return sizeBytes(anyTypeURL, len(a.typ)) + sizeBytes(anyValue, a.value)
}

// buffers returns the assembled resource as one element of DiscoveryResponse.resources. The bodies are shared; only
// what stands between them is written.
func (a *assembled) buffers() []mem.Buffer {
	head := protowire.AppendTag(nil, responseResources, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(a.anyLen()))
	head = appendString(head, anyTypeURL, a.typ)
	head = protowire.AppendTag(head, anyValue, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(a.value))
	out := append(make([]mem.Buffer, 0, 2+2*len(a.members)), mem.SliceBuffer(head), mem.SliceBuffer(a.part.Body))
	marks := make([]byte, 0, 8*len(a.members))
	for _, m := range a.members {
		from := len(marks)
		marks = protowire.AppendTag(marks, a.part.Field, protowire.BytesType)
		marks = protowire.AppendVarint(marks, uint64(len(m.Body())))
		out = append(out, mem.SliceBuffer(marks[from:len(marks):len(marks)]), mem.SliceBuffer(m.Body()))
	}
	return out
}
