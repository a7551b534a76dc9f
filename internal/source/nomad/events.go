package nomad

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Types of events.
const (
	registered   = "ServiceRegistration"
	deregistered = "ServiceDeregistration"
)

// take takes what happened at one index.
func (l *lane) take(h happening) error {
	for _, e := range h.events {
		if e.topic != api.TopicService {
			continue
		}
		if e.record == nil {
			return fmt.Errorf("event %d has no registration: %w", h.index, errMissed)
		}
		if l.readAt[e.record.of] >= h.index {
			continue // the service was read after this event
		}
		switch e.kind {
		case registered:
			l.book.Put(e.record)
		case deregistered:
			l.book.Remove(e.record.Key())
		}
	}
	l.index = h.index
	return nil
}

// flush hands over what changed.
func (l *lane) flush(begun time.Time) {
	shards, problems := l.book.Flush()
	l.of.hand(l, begun, shards, problems)
}
