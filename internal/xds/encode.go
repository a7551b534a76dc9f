package xds

import "google.golang.org/grpc/mem"

// encode builds the response of a flight.
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
	r.data = mem.BufferSlice{stateHead(FormatVersion(version), s.typ, f.nonce)}
	if s.full {
		r.resources = 0
		for _, res := range s.held() {
			r.data = append(r.data, res.stateFrame())
			r.resources++
		}
		return r
	}
	for _, p := range b.sends {
		if p.whole != nil {
			r.data = append(r.data, p.whole.buffers()...)
		} else {
			r.data = append(r.data, p.res.stateFrame())
		}
	}
	return r
}

func deltaBuffers(s *sub, f *flight, b batch) mem.BufferSlice {
	var removed []string
	for _, w := range b.gone {
		removed = append(removed, w.name.text)
	}
	out := make(mem.BufferSlice, 1, 1+len(b.sends))
	out[0] = deltaHead(f.turn, s.typ, f.nonce, removed)
	for _, p := range b.sends {
		out = append(out, p.res.deltaFrame())
	}
	return out
}
