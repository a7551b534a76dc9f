package xds

import (
	"slices"
	"strings"
	"time"

	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
)

// ProxyStatus is the state of one stream.
type ProxyStatus struct {
	Proxy       library.ProxyID
	Connection  uint64 // distinct for each stream
	Peer        string
	ConnectedAt time.Time
	Delta       bool
	Turn        uint64                         // the stream has looked up to this turn
	Types       map[string]protocol.TypeStatus // by type URL
	Synced      bool                           // nothing to send, nothing being sent, nothing un-ACKed
	Compared    bool                           // Server.Audit compared the client with the tables since anything was asked or sent
	Diverged    int                            // differences that audits found, and had sent
	Reports     int                            // requests that reported something (Options.Reports, Options.Warming)
	Warming     *Warming                       // what the client does not use yet; nil: its agent does not report it
	Warms       time.Time                      // since when it is like that
}

// Status returns the state of all streams, by proxy and connection.
func (s *Server) Status() []ProxyStatus {
	var out []ProxyStatus
	for _, st := range s.all() {
		out = append(out, st.status())
	}
	slices.SortFunc(out, func(a, b ProxyStatus) int {
		if c := strings.Compare(string(a.Proxy), string(b.Proxy)); c != 0 {
			return c
		}
		return int(a.Connection) - int(b.Connection)
	})
	return out
}

// ClientResources returns the resources of a type that a proxy holds, by name, as far as they were ACKed or sent. If a proxy has several
// streams, the youngest counts.
func (s *Server) ClientResources(proxy library.ProxyID, typ string) []*library.Resource {
	var youngest *stream
	for _, st := range s.all() {
		if st.proxy == proxy && (youngest == nil || st.id > youngest.id) {
			youngest = st
		}
	}
	if youngest == nil {
		return nil
	}
	return youngest.clientResources(typ)
}

func (s *stream) status() ProxyStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ProxyStatus{
		Proxy: s.proxy, Connection: s.id, Peer: s.peer.String(), ConnectedAt: s.since, Delta: s.delta,
		Turn: s.machine.Turn(), Types: s.machine.Status(), Synced: s.synced(),
		Compared: s.compared, Diverged: s.diverged, Reports: s.reports,
	}
	if now, known := s.warms(); known {
		out.Warming, out.Warms = &now, s.warming.since
	}
	return out
}

func (s *stream) clientResources(typ string) []*library.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.ClientResources(typ)
}
