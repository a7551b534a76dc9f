package consul

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/consul/api"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// service is one name.
type service struct {
	name    string
	index   uint64 // of the last answer; 0: there was none, or it does not count
	ids     map[uint64]bool
	handed  bool // there are rows of it
	left    bool // nothing serves it any more, unless the list of services lacks many
	over    bool // the last answer is left out, as there is no room for it
	read    bool
	bad     int  // answers in a row that could not be read
	kept    bool // the last answer is not handed on while keep lasts
	proxies bool // nothing but proxies and gateways has the name
	changed time.Time
	stop    context.CancelFunc // of the waiting query; nil: there is none
	ctx     context.Context    // of the waiting query
	awaited bool               // it is waited for once it has been read
	queued  bool               // it is to be read
	look    bool               // and first to be looked at, whether it has changed
	hot     bool               // it has changed, and is waited for once it has been read
}

// hand hands on the problems of a service, and its rows. Until all services have been read, rows are handed on in
// batches.
func (s *Source) hand(begun time.Time, v *service, found []mesh.Problem, rows ...source.Shard) {
	if !s.synced {
		s.batch, rows = append(s.batch, rows...), nil
		if len(s.batch) >= batchSize {
			rows, s.batch = s.batch, nil
		}
	}
	s.out.Put(begun, rows, map[string][]mesh.Problem{"service " + v.name: found})
}

// drop takes a service away.
func (s *Source) drop(begun time.Time, v *service) {
	delete(s.services, v.name)
	if v.stop != nil {
		s.release(v)
	}
	if !v.read {
		s.unread--
	}
	s.empty(begun, v, nil)
}

// empty removes the rows of a service, and reports its problems.
func (s *Source) empty(begun time.Time, v *service, found []mesh.Problem) {
	s.ledger.Remove(v.name)
	s.fits(v, true)
	v.ids, v.left = nil, false
	if !v.handed {
		s.hand(begun, v, found)
		return
	}
	v.handed = false
	s.hand(begun, v, found, s.tr.Gone(s.o.ConsulNamespace, v.name))
}

// fits notes whether there is room for the last answer about a service. A service that is left out counts once.
func (s *Source) fits(v *service, is bool) {
	if v.over && is {
		s.ledger.Leave(-1)
	}
	v.over = !is
}

// take takes what a server says of a service.
func (s *Source) take(asked, begun time.Time, v *service, meta *api.QueryMeta, all *entries) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services[v.name] != v {
		return
	}
	if meta.LastIndex < v.index {
		if asked.Before(v.changed) { // it was overtaken by a newer answer
			return
		}
		s.lose(lostIndex)
	}
	v.bad, v.left = 0, false
	v.index, v.changed = meta.LastIndex, begun
	if !v.read {
		v.read = true
		s.unread--
	}
	defer s.maybeSynced(begun)
	made, ok := s.o.translated(v.name, s.protocols[v.name], all.kept)
	if v.proxies = !ok; v.proxies || len(all.kept) == 0 && !all.full {
		switch {
		case meta.ResultsFilteredByACLs: // what the token may not read is not gone
		case !s.keep.IsZero():
			v.kept = true
		case v.handed && !v.proxies && all.over == 0: // with others it may be lost, which the list of services shows
			v.left = true
		default:
			s.empty(begun, v, s.largeInstances(v, all.over))
		}
		return
	}
	ids := make(map[uint64]bool, len(made.Instances))
	bytes := int64(0)
	for i := range made.Instances {
		ids[xxhash.Sum64String(made.Instances[i].ID)] = true
		bytes += made.Instances[i].Bytes()
	}
	if !s.keep.IsZero() {
		for id := range v.ids {
			if !ids[id] {
				v.kept = true
				return
			}
		}
	}
	shard, found := s.tr.Rows(made)
	ports := 0
	for _, row := range shard.Rows.Services {
		ports = len(row.Ports)
	}
	cost := platform.Cost(len(ids), bytes, ports)
	if all.full {
		cost.Bytes = s.o.Limits.Bounds().Bytes + 1
	}
	was := v.over
	if !s.ledger.Set(v.name, cost) {
		if was {
			s.ledger.Leave(-1)
		}
		v.over = true
		s.leftOut(begun, v, cost)
		return
	}
	s.fits(v, true)
	v.ids, v.handed = ids, true
	s.hand(begun, v, append(found, s.largeInstances(v, all.over)...), shard)
}

// leftOut reports that there is no room for the answer about a service. Its earlier rows stay.
func (s *Source) leftOut(begun time.Time, v *service, cost budget.Cost) {
	stays := "it is left out"
	if v.handed {
		stays = "what it had before stays"
	}
	b := s.o.Limits.Bounds()
	s.hand(begun, v, []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(v.name, printable.Short)}, Field: "instances", Code: code.TooMuch,
		Severity: mesh.Error, Message: fmt.Sprintf(
			"the registry has more than is kept of it, and there is no room for %d instances of %d bytes and %d ports more; %s",
			cost.Endpoints, cost.Bytes, cost.Ports, stays),
		Fix: fmt.Sprintf("give the service a %s, or raise maxInstances (%d), maxBytes (%d) or maxPorts (%d) of the registry",
			platform.MetaPort, b.Endpoints, b.Bytes, b.Ports),
	}})
}

// largeInstances returns the problem of instances that are too large to be read.
func (s *Source) largeInstances(v *service, n int) []mesh.Problem {
	if n == 0 {
		return nil
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(v.name, printable.Short)}, Field: "instances", Code: code.TooMuch,
		Severity: mesh.Error, Message: fmt.Sprintf("%d instances have more than %d KiB; they are left out", n, mostEntry>>10),
	}}
}

// unreadable reports that a service's answer cannot be read, and returns how often that was so. After some tries the start no longer
// waits for it.
func (s *Source) unreadable(v *service, err error) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services[v.name] != v {
		return 1
	}
	v.bad++
	s.hand(time.Now(), v, []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(v.name, printable.Short)}, Field: "instances", Code: code.Unreadable,
		Severity: mesh.Error, Message: "what it has cannot be read, and stays as it was: " + printable.Text(err.Error(), printable.Long),
	}})
	if v.bad >= 3 && !v.read {
		v.read = true
		s.unread--
		s.maybeSynced(time.Now())
	}
	return v.bad
}
