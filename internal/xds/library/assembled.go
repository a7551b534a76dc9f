package library

import (
	"maps"
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Assembled is a resource completed by its members, for the state-of-the-world protocol, which has no virtual host
// discovery.
type Assembled struct {
	part    *Part
	typ     string
	Members []*Resource // by name
	Version uint64
	value   int // bytes of the message
	Size    int // bytes of the whole field in the response
}

// Assemble collects the members of a resource.
func Assemble(v *View, r *Resource) *Assembled {
	part := r.opts.StateForm
	found := map[string]*Resource{}
	hosts := v.Stack(part.MemberType)
	hosts.Members(r.links.memberOwner, func(e *Entry) {
		if m := hosts.Resolve(e); m != nil {
			found[e.text] = m
		}
	})
	a := &Assembled{part: part, typ: r.typ, value: len(part.Body)}
	sum := r.sum
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		a.Members = append(a.Members, m)
		a.value += sizeBytes(part.Field, len(m.Body()))
		sum ^= m.sum
	}
	a.Version = Mix(sum)
	a.Size = sizeBytes(responseResources, a.anyLen())
	return a
}

func (a *Assembled) anyLen() int {
	return sizeBytes(anyTypeURL, len(a.typ)) + sizeBytes(anyValue, a.value)
}

// Buffers returns the assembled resource as one element of DiscoveryResponse.resources. The bodies are shared; only the bytes between them
// are written.
func (a *Assembled) Buffers() []mem.Buffer {
	head := protowire.AppendTag(nil, responseResources, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(a.anyLen()))
	head = appendString(head, anyTypeURL, a.typ)
	head = protowire.AppendTag(head, anyValue, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(a.value))
	out := append(make([]mem.Buffer, 0, 2+2*len(a.Members)), mem.SliceBuffer(head), mem.SliceBuffer(a.part.Body))
	marks := make([]byte, 0, 8*len(a.Members))
	for _, m := range a.Members {
		from := len(marks)
		marks = protowire.AppendTag(marks, a.part.Field, protowire.BytesType)
		marks = protowire.AppendVarint(marks, uint64(len(m.Body())))
		out = append(out, mem.SliceBuffer(marks[from:len(marks):len(marks)]), mem.SliceBuffer(m.Body()))
	}
	return out
}
