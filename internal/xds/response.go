package xds

import (
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// response is one encoded answer: a few bytes of its own, then buffers shared with all other streams.
type response struct {
	typ       string
	turn      uint64
	resources int
	removed   int
	data      mem.BufferSlice
}

// Field numbers of DeltaDiscoveryResponse and DiscoveryResponse, where they differ.
const (
	deltaSystemVersion = 1
	deltaTypeURL       = 4
	deltaNonce         = 5
	deltaRemoved       = 6

	stateVersion = 1
	stateTypeURL = 4
	stateNonce   = 5
)

// encode builds the response of a flight. The order of fields on the wire is free; what is shared comes last.
func (m *machine) encode(s *sub, f *flight, b batch) *response {
	r := &response{typ: s.typ, turn: f.turn, resources: len(b.sends), removed: len(b.gone)}
	if m.delta {
		r.data = deltaBuffers(s, f, b)
		return r
	}
	version := s.sum
	if !s.full {
		version ^= scramble(f.turn)
	}
	head := make([]byte, 0, 128)
	head = appendString(head, stateVersion, FormatVersion(version))
	head = appendString(head, stateTypeURL, s.typ)
	head = appendString(head, stateNonce, f.nonce)
	r.data = mem.BufferSlice{mem.SliceBuffer(head)}
	if s.full {
		r.resources = 0
		for _, res := range s.held() {
			r.data = append(r.data, &res.sotw)
			r.resources++
		}
		return r
	}
	for _, p := range b.sends {
		if p.whole != nil {
			r.data = append(r.data, p.whole.buffers()...)
		} else {
			r.data = append(r.data, &p.res.sotw)
		}
	}
	return r
}

func deltaBuffers(s *sub, f *flight, b batch) mem.BufferSlice {
	size := 48 + len(s.typ)
	for _, w := range b.gone {
		size += len(w.name.text) + 4
	}
	head := make([]byte, 0, size)
	head = protowire.AppendTag(head, deltaSystemVersion, protowire.BytesType)
	head = appendUint(head, f.turn)
	head = appendString(head, deltaTypeURL, s.typ)
	head = appendString(head, deltaNonce, f.nonce)
	for _, w := range b.gone {
		head = appendString(head, deltaRemoved, w.name.text)
	}
	out := make(mem.BufferSlice, 1, 1+len(b.sends))
	out[0] = mem.SliceBuffer(head)
	for _, p := range b.sends {
		out = append(out, &p.res.delta)
	}
	return out
}

// appendUint appends a number as a length-delimited string of digits.
func appendUint(b []byte, v uint64) []byte {
	var digits [20]byte
	return protowire.AppendBytes(b, strconv.AppendUint(digits[:0], v, 10))
}

// Size returns the bytes of the response.
func (r *response) Size() int { return r.data.Len() }
