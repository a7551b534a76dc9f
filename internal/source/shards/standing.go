package shards

import (
	"cmp"
	"time"

	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// Phase is how far a source is.
type Phase uint8

// The phases of a source.
const (
	Waiting Phase = iota // it has not handed over yet all that there is
	Late                 // the same, but it is not waited for any more
	Synced               // all that it has is here
	Stale                // it was, and is not kept up to date for now
	Gone                 // it has left; what it handed in stays
)

func (p Phase) String() string { return [...]string{"waiting", "late", "synced", "stale", "gone"}[p] }

// Standing is the state of a source.
type Standing struct {
	Source string    `json:"source"`
	Phase  string    `json:"phase"`
	Since  time.Time `json:"since"` // of the phase
	Detail string    `json:"detail,omitempty"`
	Shards int       `json:"shards"`
	Rows   int       `json:"rows"` // also those that do not count
	// LeftOut is how many things of its server the source leaves out, because they are too many or too large.
	LeftOut uint64 `json:"leftOut,omitempty"`
}

// Phases counts the sources that are in each phase.
func (s *Set) Phases() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for p := Waiting; p <= Gone; p++ {
		out[p.String()] = 0
	}
	for _, m := range s.members {
		out[m.phase.String()]++
	}
	return out
}

// Standings lists all sources, in order of precedence.
func (s *Set) Standings() []Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := s.inOrder()
	out := make([]Standing, len(members))
	for i, m := range members {
		out[i] = Standing{
			Source: m.name, Phase: m.phase.String(), Since: m.since, Detail: m.detail,
			Shards: len(m.shards), Rows: m.rows, LeftOut: m.leftOut,
		}
	}
	return out
}

// Synced reports whether everything that sources had to hand over at the start has been handed on.
func (s *Set) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncedReported
}

// AllRead reports whether every source has been read: none is waited for, or was given up.
func (s *Set) AllRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.phase == Waiting || m.phase == Late {
			return false
		}
	}
	return true
}

// synced reports whether no source is waited for. mu is held.
func (s *Set) synced() bool {
	for _, m := range s.members {
		if m.phase == Waiting {
			return false
		}
	}
	return true
}

// applyState takes the state that a source reports of itself. mu is held.
func (s *Set) applyState(m *member, u source.Update) {
	if u.LeftOut != nil {
		m.leftOut = *u.LeftOut
	}
	if u.Synced && (m.phase == Waiting || m.phase == Late) {
		m.stopWaiting()
		for _, left := range m.shardsWhere(func(at *shard) bool { return at.run != m.run }) {
			s.drop(left) // not spoken of since the source came back
		}
		s.become(m, Synced, "")
	}
	switch {
	case u.Stale != "" && m.phase == Synced:
		s.become(m, Stale, u.Stale)
	case u.Stale != "" && m.phase <= Stale: // for another reason now: it has been so since it began
		m.detail = u.Stale
	case u.Fresh && m.phase == Stale:
		s.become(m, Synced, "")
	}
}

// giveUp ends the wait for a source's first sync. mu is not held.
func (s *Set) giveUp(m *member, run int, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.run != run || m.phase != Waiting {
		return
	}
	s.become(m, Late, cmp.Or(m.detail, "nothing of it was complete after "+after.String()))
	s.hand()
}

func (m *member) stopWaiting() {
	if m.late != nil {
		m.late.Stop()
		m.late = nil
	}
}

// become moves a source to another phase. mu is held.
func (s *Set) become(m *member, p Phase, detail string) {
	m.phase, m.since, m.detail = p, time.Now(), detail
	switch p {
	case Stale, Late:
		s.log.Warn("a source is "+p.String(), "source", m.name, "detail", detail, "rows", m.rows)
	default:
		s.log.Debug("a source is "+p.String(), "source", m.name, "rows", m.rows)
	}
}

// Origin is where a row comes from.
type Origin struct {
	Source  string
	Phase   string
	Since   time.Time // of the phase
	Detail  string    // why it is not up to date
	Changed time.Time // when the source said something new of the row's shard
}

// OriginOf returns where the version of a service that counts comes from: if a ServiceEntry declares it, from the ServiceEntry.
// False: no source has it.
func (s *Set) OriginOf(k mesh.ServiceKey) (Origin, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at *shard
	if list := s.services.rows[k]; len(list) > 0 {
		at = list[0].shard
	} else if k.Registry == string(config.ServiceEntry) {
		if list := s.objects.rows[config.Key{Kind: config.ServiceEntry, Namespace: k.Namespace, Name: k.Object}]; len(list) > 0 {
			at = list[0].shard
		}
	}
	if at == nil {
		return Origin{}, false
	}
	return Origin{Source: at.of.name, Phase: at.of.phase.String(), Since: at.of.since, Detail: at.of.detail, Changed: at.changed}, true
}
