package xds

import (
	"time"

	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
)

// ProxyLag is what one stream's client lacks of the changes up to a turn.
type ProxyLag struct {
	Proxy      library.ProxyID
	Connection uint64
	Lags       []protocol.Lag
	// Unplaced is set while the library has no attachment for the proxy: nothing is known of what it should have.
	Unplaced bool
}

// Lags returns the streams whose clients lack something of the changes up to a turn, by age, and how many streams were asked. ask selects
// the streams' proxies; nil: all. It looks at every stream, and at all that each has not acknowledged; it changes nothing.
func (s *Server) Lags(turn uint64, ask func(library.ProxyID) bool) (behind []ProxyLag, asked int) {
	for _, st := range s.all() {
		proxy, known := st.identified()
		if !known || ask != nil && !ask(proxy) {
			continue
		}
		asked++
		if lag := st.lags(turn); lag.Unplaced || len(lag.Lags) > 0 {
			behind = append(behind, lag)
		}
	}
	return behind, asked
}

// identified returns the stream's proxy; false: it is not known yet.
func (s *stream) identified() (library.ProxyID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proxy, s.viewer != nil
}

// lags returns what the client lacks.
func (s *stream) lags(turn uint64) ProxyLag {
	s.mu.Lock()
	defer s.mu.Unlock()
	lag := ProxyLag{Proxy: s.proxy, Connection: s.id}
	lag.Unplaced = !s.viewer.Read(func(v *library.View) { lag.Lags = s.machine.Lags(v, turn) })
	return lag
}

// PublishedAt returns when a turn was published, if that was not too many turns ago.
func (s *Server) PublishedAt(turn uint64) (time.Time, bool) { return s.lib.PublishedAt(turn) }

// LastTurn returns the turn that was published last.
func (s *Server) LastTurn() uint64 { return s.lib.Turn() }
