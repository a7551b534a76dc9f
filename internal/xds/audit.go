package xds

import (
	"fairway/internal/xds/library"
	"fairway/internal/xds/slots"
)

// Pass remembers what an audit has compared.
type Pass = slots.Pass

// NewPass returns a pass that has compared nothing.
func NewPass() *Pass { return slots.NewPass() }

// Connections lists the streams that have identified themselves, oldest first.
func (s *Server) Connections() []uint64 {
	all := s.all()
	out := make([]uint64, len(all))
	for i, st := range all {
		out[i] = st.id
	}
	return out
}

// Audit compares one stream with the tables: the shelves that its proxy sees, their content, and the resources that the stream
// believes its client to hold. Differences are sent to the client, except Rows: the caller must publish these again. No turn may be
// published meanwhile. false: there is no such stream.
func (s *Server) Audit(connection uint64, t library.Tables, pass *Pass) (library.Audited, bool) {
	s.mu.Lock()
	st := s.streams[connection]
	s.mu.Unlock()
	if st == nil {
		return library.Audited{}, false
	}
	return st.audit(t, pass), true
}

func (s *stream) audit(t library.Tables, pass *Pass) (out library.Audited) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out.Proxy = s.proxy; s.viewer == nil {
		return out
	}
	to := t.Attachment(s.proxy)
	if to == nil || !s.viewer.Read(func(v *library.View) { s.compare(v, to, t, pass, &out) }) {
		return out
	}
	s.compared = out.Done
	if found := out.Count(); found > 0 {
		s.diverged += found
		s.viewer.Wake()
	}
	if out.Counts[library.OfAttachment] > 0 {
		s.server.lib.Reattach(library.Attach{Proxy: s.proxy, To: to})
	}
	return out
}

// compare does the work of audit at one turn.
func (s *stream) compare(v *library.View, to *library.Attachment, t library.Tables, pass *Pass, out *library.Audited) {
	v.CompareStacks(to, out)
	v.CompareShelves(t, pass.Shelves, out)
	if s.sending || !s.machine.Audit(v, pass, out) {
		s.viewer.Wake()
		return
	}
	out.Done = true
}
