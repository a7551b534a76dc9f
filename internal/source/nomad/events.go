package nomad

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/mesh"
	"fairway/internal/source"
	"fairway/internal/source/platform"
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
		if e.service == nil {
			return fmt.Errorf("event %d tells of no registration: %w", h.index, errMissed)
		}
		if l.heard[e.of] >= h.index {
			continue // what was read of the service is newer
		}
		switch e.kind {
		case registered:
			l.register(e.of, e.service)
		case deregistered:
			l.deregister(e.of, e.service.id)
		}
	}
	l.index = h.index
	return nil
}

func (l *lane) register(k key, r *record) {
	members, known := l.services[k]
	old := find(members, r.id)
	if old != nil {
		charge(l.ledger, k, old, -1)
	}
	if !charge(l.ledger, k, r, 1) {
		if old != nil { // what is known of it is not what there is, and there is no room for that
			charge(l.ledger, k, old, 1)
			l.deregister(k, r.id)
		}
		return
	}
	if !known {
		l.of.services.Add(1)
	}
	members, changed := put(members, r)
	if l.services[k] = members; changed {
		l.dirty[k] = struct{}{}
	}
}

func (l *lane) deregister(k key, id string) {
	members := l.services[k]
	old := find(members, id)
	if old == nil {
		return
	}
	charge(l.ledger, k, old, -1)
	members = slices.DeleteFunc(members, func(m *record) bool { return m.id == id })
	if len(members) == 0 {
		l.drop(k)
		return
	}
	l.services[k], l.dirty[k] = members, struct{}{}
}

// chargePorts charges the ports of a service. false: there is no room for them.
func (l *lane) chargePorts(k key, ports int) bool {
	c := l.ledger.Of(k)
	c.Ports = max(ports-1, 0)
	if !l.ledger.Set(k, c) {
		return false
	}
	l.ports[k] = ports
	return true
}

// flush hands over what changed.
func (l *lane) flush(begun time.Time) {
	problems := map[string][]mesh.Problem{}
	var shards []source.Shard
	for _, k := range sortedKeys(l.dirty) {
		place, members := platform.Part(k.namespace, k.name), l.services[k]
		delete(l.noRoom, k)
		if len(members) == 0 {
			delete(l.ports, k)
			shards = append(shards, l.of.rows.Gone(k.namespace, k.name))
			problems[place] = nil
			continue
		}
		service, wrong := serviceOf(l.of.name, k, members)
		shard, more := l.of.rows.Rows(service)
		ports := 0
		for _, row := range shard.Rows.Services {
			ports = len(row.Ports)
		}
		if !l.chargePorts(k, ports) {
			l.noRoom[k] = struct{}{}
			shard, more = l.of.rows.Gone(k.namespace, k.name), append(more, l.of.rows.TooManyPorts(service, ports, l.bounds))
		}
		shards = append(shards, shard)
		problems[place] = append(wrong, more...)
	}
	clear(l.dirty)
	l.of.hand(l, begun, shards, problems)
}
