package protocol

import (
	"google.golang.org/grpc/mem"

	"fairway/internal/xds/library"
	"fairway/internal/xds/wire"
)

// encode builds the response of a flight.
func (m *Machine) encode(s *sub, f *flight, b batch) *wire.Response {
	r := &wire.Response{Type: s.typ, Turn: f.turn, Turns: f.turns, Resources: len(b.sends), Removed: len(b.gone)}
	if m.delta {
		r.Data = deltaBuffers(s, f, b)
		return r
	}
	version := s.sum
	if !s.full {
		version ^= library.Mix(f.turn)
	}
	r.Data = mem.BufferSlice{wire.StateHead(library.FormatVersion(version), s.typ, f.nonce)}
	if s.full {
		r.Resources = 0
		for _, res := range s.clientResources() {
			r.Data = res.AppendState(r.Data)
			r.Resources++
		}
		return r
	}
	for _, p := range b.sends {
		if p.whole != nil {
			r.Data = append(r.Data, p.whole.Buffers()...)
		} else {
			r.Data = p.res.AppendState(r.Data)
		}
	}
	return r
}

func deltaBuffers(s *sub, f *flight, b batch) mem.BufferSlice {
	var removed []string
	for _, w := range b.gone {
		removed = append(removed, w.name.Text())
	}
	out := make(mem.BufferSlice, 1, 1+2*len(b.sends))
	out[0] = wire.DeltaHead(f.turn, s.typ, f.nonce, removed)
	for _, p := range b.sends {
		out = p.res.AppendDelta(out)
	}
	return out
}
