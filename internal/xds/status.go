package xds

import (
	"slices"
	"strings"
	"time"
)

// ProxyStatus is the state of one stream.
type ProxyStatus struct {
	Proxy       ProxyID
	Connection  uint64 // distinct for each stream
	Peer        string
	ConnectedAt time.Time
	Delta       bool
	Turn        uint64                // up to which the stream has looked
	Types       map[string]TypeStatus // by type URL
	Synced      bool                  // nothing to send, nothing being sent, nothing un-ACKed
	Compared    bool                  // Server.Audit compared what the client holds with the tables since anything was asked or sent
	Diverged    int                   // differences that audits found, and had sent
	Reports     int                   // requests that told something (Options.Reports), each handed on
}

// TypeStatus is the state of one type on a stream. Versions are turns: a response of turn n brings the client to n.
type TypeStatus struct {
	Sent     Mark
	Acked    Mark
	Held     int    // resources that the client holds
	Pending  int    // names still to be sent or removed
	Rejected string // the client's words when it last refused something that is still quarantined
}

// Mark is a point in the conversation: a response's nonce and turn.
type Mark struct {
	Nonce string
	Turn  uint64
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

// Held returns what a proxy holds of a type, by name, as far as it ACKed or was sent it; of several streams of one
// proxy, the youngest counts.
func (s *Server) Held(proxy ProxyID, typ string) []*Resource {
	var youngest *stream
	for _, st := range s.all() {
		if st.proxy == proxy && (youngest == nil || st.id > youngest.id) {
			youngest = st
		}
	}
	if youngest == nil {
		return nil
	}
	return youngest.held(typ)
}

func (s *stream) status() ProxyStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ProxyStatus{
		Proxy: s.proxy, Connection: s.id, Peer: s.peer.String(), ConnectedAt: s.since, Delta: s.machine.delta,
		Turn: s.machine.cursor, Types: map[string]TypeStatus{}, Synced: s.synced(),
		Compared: s.compared, Diverged: s.diverged, Reports: s.reports,
	}
	for _, sub := range s.machine.order {
		out.Types[sub.typ] = sub.status()
	}
	return out
}

func (s *stream) held(typ string) []*Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.machine.subs[typ]
	if sub == nil {
		return nil
	}
	return sub.held()
}

func (s *sub) status() TypeStatus {
	t := TypeStatus{Sent: s.sent, Acked: s.acked, Pending: len(s.queue)}
	for sl := range s.slots.all() {
		if sl.is(has) {
			t.Held++
		}
	}
	for _, g := range s.trials {
		t.Pending += len(g)
	}
	if len(s.jail) > 0 {
		t.Rejected = s.detail
	}
	return t
}

// held returns the resources that the client holds, by name; those whose version is unknown are left out.
func (s *sub) held() []*Resource {
	var out []*Resource
	for sl := range s.slots.all() {
		if sl.is(has) && sl.res != nil {
			out = append(out, sl.res)
		}
	}
	slices.SortFunc(out, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}
