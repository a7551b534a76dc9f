package xds

import "time"

// WarmingReports are requests that say how many resources the client has acknowledged and does not use yet. A report holds until the
// client acknowledges another resource that warms.
type WarmingReports struct {
	Type  string   // type URL of the reports
	Warms []string // type URLs of the resources that warm
	// Decode reads the error_detail of a report, empty if it has none. Reports with an error do not count.
	Decode func(detail string) (Warming, error)
}

// Warming is how many acknowledged resources a client does not use yet.
type Warming struct {
	Listeners, Clusters int
	Unknown             bool // it may be some: its agent has not asked since the client's last acknowledgement
	Untold              bool // its agent cannot tell
}

// None reports whether nothing warms.
func (w Warming) None() bool { return w == Warming{} }

// reportedWarming is the last report on a stream. Its stream's mu guards it.
type reportedWarming struct {
	Warming
	received bool
	since    time.Time // of the first report in a row with something that warms
	acked    []string  // the nonces of the last acknowledgements then, as Warms has their types
}

// takeWarming notes a report; false: it is a request of another kind.
func (s *stream) takeWarming(typ, detail string) bool {
	o := s.server.opts.Warming
	if o == nil || typ != o.Type {
		return false
	}
	now, err := o.Decode(detail)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports++
	if err != nil {
		return true
	}
	since := s.warming.since
	if s.warming.None() || since.IsZero() {
		since = time.Now()
	}
	s.warming = reportedWarming{Warming: now, received: !now.Untold, since: since, acked: s.acked()}
	return true
}

// acked returns the nonces of the last acknowledgements of the resources that warm. s.mu is held.
func (s *stream) acked() (nonces []string) {
	for _, typ := range s.server.opts.Warming.Warms {
		nonces = append(nonces, s.machine.Acked(typ))
	}
	return nonces
}

// warms returns what the client does not use yet; known: its agent reports it. s.mu is held.
func (s *stream) warms() (now Warming, known bool) {
	if !s.warming.received {
		return Warming{}, false
	}
	now = s.warming.Warming
	for i, nonce := range s.acked() {
		if nonce != s.warming.acked[i] {
			now.Unknown = true
		}
	}
	return now, true
}
