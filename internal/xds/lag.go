package xds

import (
	"slices"
	"time"

	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
)

// ProxyLag is what one stream's client lacks of the changes up to a turn.
type ProxyLag struct {
	Proxy      library.ProxyID
	Connection uint64
	Lags       []protocol.Lag
	// Warming is what it has acknowledged and does not use yet, and Warms since when; Reported: its agent tells.
	Warming  Warming
	Warms    time.Time
	Reported bool
	// Unplaced is set while the library has no attachment for the proxy: nothing is known of what it should have.
	Unplaced bool
}

// Lags are the streams of clients that lack something.
type Lags struct {
	Behind []ProxyLag // by age: those that lack changes, or do not use yet what they have
	Asked  int        // streams that were looked at
	Silent int        // those that lack nothing, without reports of what warms
}

// Lags returns the streams of clients that lack something of the changes up to a turn. ask selects the streams' proxies; nil: all. It looks
// at every stream, and at all that each has not acknowledged; it changes nothing.
func (s *Server) Lags(turn uint64, ask func(library.ProxyID) bool) (out Lags) {
	all := s.all()
	reports := map[library.ProxyID]uint64{} // the youngest stream of each proxy that has reports
	for _, st := range slices.Backward(all) {
		if proxy, known := st.identified(); known && reports[proxy] == 0 && st.reportsWarming() {
			reports[proxy] = st.id
		}
	}
	for _, st := range all {
		proxy, known := st.identified()
		if !known || ask != nil && !ask(proxy) {
			continue
		}
		out.Asked++
		lag := st.lags(turn)
		if youngest := reports[proxy]; youngest > st.id { // this is the stream of an Envoy that another one replaces
			lag.Reported, lag.Warming = true, Warming{}
		}
		switch {
		case lag.Unplaced || len(lag.Lags) > 0 || !lag.Warming.None():
			out.Behind = append(out.Behind, lag)
		case !lag.Reported:
			out.Silent++
		}
	}
	return out
}

// identified returns the stream's proxy; false: it is not known yet.
func (s *stream) identified() (library.ProxyID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proxy, s.viewer != nil
}

// reportsWarming reports whether the client's agent tells on this stream what warms.
func (s *stream) reportsWarming() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warming.received
}

// lags returns what the client lacks.
func (s *stream) lags(turn uint64) ProxyLag {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag := ProxyLag{Proxy: s.proxy, Connection: s.id}
	lag.Warming, lag.Reported = s.warms()
	lag.Warms = s.warming.since
	lag.Unplaced = !s.viewer.Read(func(v *library.View) { lag.Lags = s.machine.Lags(v, turn) })
	return lag
}

// Concerned returns those of the streams with clients that want something which a turn may have changed. See Machine.Concerns.
func (s *Server) Concerned(turn uint64, changed func(typ string) bool, streams []uint64) (out []uint64) {
	for _, id := range streams {
		s.mu.Lock()
		st := s.streams[id]
		s.mu.Unlock()
		if st != nil && st.concerns(turn, changed) {
			out = append(out, id)
		}
	}
	return out
}

func (s *stream) concerns(turn uint64, changed func(typ string) bool) (is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.viewer != nil && s.viewer.Read(func(v *library.View) { is = s.machine.Concerns(v, turn, changed) }) && is
}

// PublishedAt returns when a turn was published, if that was not too many turns ago.
func (s *Server) PublishedAt(turn uint64) (time.Time, bool) { return s.lib.PublishedAt(turn) }

// LastTurn returns the turn that was published last.
func (s *Server) LastTurn() uint64 { return s.lib.Turn() }
